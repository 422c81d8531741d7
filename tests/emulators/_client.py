"""Starts an emulator, and tells it what to do."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from typing import Any, ClassVar, Self


class EmulatorClient:
    """A running emulator; ``with`` ends it and everything that it started.

    Args:
        user: User that server and commands run as; needs root.
        **switches: See the emulator's `_switches.Switches`.

    Attributes:
        program: What Python runs to start it; given ``--guard`` and the switches.
        facts: What the server said when it was ready: ``url``, ``root``, and, where its controls have an address of
            their own, ``control``.
    """

    program: ClassVar[str]

    def __init__(self, *, user: str | None = None, **switches: Any) -> None:
        arguments = [f"--switch={name}={json.dumps(value)}" for name, value in switches.items()]
        if user is not None:
            arguments.append(f"--user={user}")
        # stdin is the lifeline: when this process ends in any way, the guard sees its end and clears up. A session of
        # its own keeps the terminal's Ctrl-C away from it.
        self._guard = subprocess.Popen(
            [sys.executable, self.program, "--guard", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if not line.strip():
            self.close()
            raise RuntimeError("the emulator did not start; its own message is above")
        self.facts: dict[str, Any] = json.loads(line)
        self.url: str = self.facts["url"]
        self.root: str = self.facts["root"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; returns when every process is gone."""
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.close()
        self._guard.stdout.close()
        self._guard.wait()

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._guard.pid

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which the SDK finds it."""
        raise NotImplementedError

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.facts.get('control', self.url)}/_emulator/{path}", data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request) as answer:
            return json.loads(answer.read())

    def fail(self, endpoint: str, kind: str, value: float = 0.0, **more: Any) -> None:
        """A fault to come; see `_faults.Fault`.

        Raises:
            urllib.error.HTTPError: The emulator knows no such kind.
        """
        self._ask("POST", "faults", {"endpoint": endpoint, "kind": kind, "value": value, **more})

    def heal(self) -> None:
        """Forget faults to come and release what is held."""
        self._ask("DELETE", "faults")

    def release(self) -> None:
        """Let held requests go on."""
        self._ask("POST", "release")

    def wait_held(self, endpoint: str, count: int = 1, timeout: float = 30.0) -> None:
        """Wait until requests are held by a fault.

        Raises:
            TimeoutError: None came.
        """
        if not self._ask("GET", f"held?endpoint={endpoint}&count={count}&timeout={timeout}")["held"]:
            raise TimeoutError(f"no {endpoint} request was held within {timeout} s")

    @property
    def switches(self) -> dict[str, Any]:
        """The switches as they are now."""
        switches: dict[str, Any] = self._ask("GET", "state")["switches"]
        return switches

    def switch(self, **switches: Any) -> None:
        """Change switches while it runs."""
        self._ask("PUT", "switches", switches)

    def counts(self, sandbox: str = "") -> dict[str, int]:
        """Requests by endpoint since the last `forget`."""
        counts: dict[str, int] = self._ask("GET", f"state?sandbox={sandbox}")["counts"]
        return counts

    def log(self, sandbox: str = "") -> list[dict[str, Any]]:
        """Requests in order of arrival since the last `forget`, with sizes, status and the text of commands."""
        log: list[dict[str, Any]] = self._ask("GET", f"state?sandbox={sandbox}")["log"]
        return log

    def forget(self) -> None:
        """Count from nothing again."""
        self._ask("DELETE", "log")

    def sandboxes(self) -> dict[str, dict[str, Any]]:
        """Every sandbox by id, with its directory and its processes."""
        sandboxes: dict[str, dict[str, Any]] = self._ask("GET", "state")["sandboxes"]
        return sandboxes

    def vanish(self, sandbox: str, state: str = "destroyed") -> None:
        """The provider takes a sandbox away (``destroyed``), or stops it, without being asked."""
        self._ask("POST", f"sandboxes/{sandbox}/vanish?state={state}")
