"""A command: a process, its records and its input, as the service tells of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.emulators._http import Refusal

from ._input import Input
from ._output import Output

if TYPE_CHECKING:
    from ._account import Account
    from ._switches import Switches

STREAM_CLOSED = {
    "code": "sandbox_stream_closed",
    "message": "Sandbox stream was closed and is not accepting commands.",
}
"""The only error record that the API's reference knows (stream command logs)."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asked to run."""

    name: str
    args: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    sudo: bool
    attach_stdin: bool
    timeout: float | None
    """Seconds until the service kills it."""


class Command:
    """One command of a session, from its start to long after its end."""

    def __init__(self, session: str, wish: Wish, child: subprocess.Popen[bytes], switches: Switches) -> None:
        self.id = f"cmd_{secrets.token_hex(12)}"
        self.session, self.wish = session, wish
        self.exit_code: int | None = None
        self.lost: Refusal | None = None
        self._switches, self._child = switches, child
        self._started = time.time()
        self._loop = asyncio.get_running_loop()
        self.output = Output(decode=switches.log_decode, piece=switches.log_chunk_bytes)
        assert child.stdout is not None
        assert child.stderr is not None
        self.output.attach("stdout", _own(child.stdout))
        self.output.attach("stderr", _own(child.stderr))
        self.input = None if child.stdin is None else Input(_own(child.stdin), switches.stdin_seconds)
        self._process = os.pidfd_open(child.pid)
        self._gone = asyncio.Event()
        self._loop.add_reader(self._process, self._on_exit)
        self._alarm = None if wish.timeout is None else self._loop.call_later(wish.timeout, self.kill, signal.SIGKILL)
        self._work = asyncio.create_task(self._follow())

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._process)
        os.close(self._process)
        self._child.wait()
        self._gone.set()

    async def _follow(self) -> None:
        """Until it is over, as the service sees it."""
        await self._gone.wait()
        if self._alarm is not None:
            self._alarm.cancel()
        while self._switches.wait_for_pipe_end and not self.output.drained and not self.output.sealed:
            await self.output.changed()
        if self.output.sealed:
            return
        self.output.take_rest()
        self._end(self._code(), None)

    def _end(self, code: int | None, last: dict[str, Any] | None) -> None:
        self.exit_code = code
        if self.input is not None:
            self.input.close()
        self.output.seal(last)

    def _code(self) -> int:
        code = self._child.returncode
        if code >= 0:
            return code
        return 128 - code if self._switches.signal_exit == "128+n" else -1

    def lose(self, refusal: Refusal) -> None:
        """Its sandbox has stopped: the record that says so is the last, and nobody learns an exit code."""
        if not self.output.sealed:
            self.lost = refusal
            closed = self._switches.stopped_stream == "sandbox_stream_closed"
            error = STREAM_CLOSED if closed else {"code": "sandbox_stopped", "message": refusal.message}
            self._end(None, {"stream": "error", "data": error})

    @property
    def over(self) -> bool:
        """Whether it has ended, as the service sees it."""
        return self.output.sealed

    async def wait(self) -> None:
        """Until it is over.

        Raises:
            Refusal: Its sandbox has stopped.
        """
        while not self.output.sealed:
            await self.output.changed()
        if self.lost is not None:
            raise self.lost

    def kill(self, number: int) -> None:
        """Send a signal to its process or to its group, while there is one."""
        if self.over:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._switches.kill_scope == "group":
                os.killpg(self._child.pid, number)
            elif self._child.returncode is None:
                os.kill(self._child.pid, number)

    async def feed(self, data: bytes, offset: int | None, *, close: bool) -> int:
        """Write to its input.

        Raises:
            Refusal: It has none, or does not take it.
        """
        if self._gone.is_set():
            raise Refusal(404, "not_found", f"command {self.id} is not running")
        if self.input is None:
            raise Refusal(400, "command_stdin_unavailable", "command was started without stdin")
        return await self.input.feed(data, offset, close=close)

    def to_json(self) -> dict[str, Any]:
        """What the service tells of it."""
        return {
            "id": self.id,
            "name": self.wish.name,
            "args": list(self.wish.args),
            "cwd": self.wish.cwd,
            "sessionId": self.session,
            "exitCode": self.exit_code,
            "startedAt": int(self._started * 1000),
        }


def _own(pipe: Any) -> int:
    """The descriptor of a pipe, taken from the object that would close it."""
    descriptor = os.dup(pipe.fileno())
    pipe.close()
    return descriptor


def start(wish: Wish, environ: dict[str, str], who: Account | None) -> dict[str, Any]:
    """Options of `subprocess.Popen` for a command: the leader of a session of its own, with pipes."""
    return {
        "cwd": wish.cwd,
        "env": environ,
        "stdin": subprocess.PIPE if wish.attach_stdin else subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "start_new_session": True,
        **({} if who is None else who.options()),
    }
