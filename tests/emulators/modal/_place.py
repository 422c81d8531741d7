"""Where the commands of a sandbox run: the process below which they are, and the line to it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.emulators._guard import descendants
from tests.emulators._namespace import children
from tests.emulators._processes import kill_marked

MARK = "MODAL_SANDBOX_ID"
"""Variable that the vendor gives every process of a sandbox; by it this emulator finds what it has to end."""
ENTRY = "entrypoint"
"""Name of the command whose end is the sandbox's."""
TOOLS = "/__modal/.bin/modal-sandbox-fs-tools"
"""The program that the SDK calls for files (SDK sandbox/_filesystem)."""
_HERE = os.path.dirname(os.path.abspath(__file__))
_PROGRAMS = {name: Path(_HERE, name).read_text(encoding="utf-8") for name in ("_init.py", "_fs_tools.py")}
"""Read at once: the user that the emulator becomes may not see them."""
_UNSHARE = ("unshare", "--pid", "--fork", "--mount", "--kill-child")
Ended = Callable[[str, tuple[str, int]], None]


@functools.cache
def python() -> str:
    """A Python that this user may run, in the sandbox too."""
    own = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    return next(path for path in (own, "/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK))


def install(root: str) -> None:
    """Put the programs that sandboxes are made with into the emulator's directory."""
    for name, text in _PROGRAMS.items():
        Path(root, name).write_text(text, encoding="utf-8")


@functools.cache
def can_isolate(root: str) -> bool:
    """Whether a private root can be made here: root, `unshare`, and a kernel that lays one file system over another."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    is_up = False
    with tempfile.TemporaryDirectory() as place:
        plan = {"isolated": True, "place": place, "volumes": [], "home": "/root", "tools": [TOOLS, ""]}
        here, there = socket.socketpair()
        with here:
            with there:
                command = [*_UNSHARE, *_program(root, "_init.py"), *[str(there.fileno())] * 2]
                tried = subprocess.Popen(command, pass_fds=[there.fileno()], stderr=subprocess.DEVNULL)
            with contextlib.suppress(ConnectionError):
                here.sendall(_framed(plan))
            with contextlib.suppress(ConnectionError):
                is_up = b"up" in here.recv(100)
        tried.wait()
    return is_up


def _program(root: str, name: str) -> list[str]:
    return [python(), "-I", "-S", os.path.join(root, name)]


def _framed(request: dict[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    return struct.pack("!I", len(body)) + body


class Place:
    """The first process of a sandbox.

    Args:
        sandbox: Its id.
        place: An empty directory for it, in the emulator's.
        on_end: Told the name of each command that ended, and how.
    """

    def __init__(self, sandbox: str, place: str, on_end: Ended) -> None:
        self._sandbox, self._place, self._on_end = sandbox, place, on_end
        self._starting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._turn = asyncio.Lock()
        self._listener: asyncio.Task[None] | None = None
        self._holder: subprocess.Popen[bytes] | None = None
        self._is_gone = False
        self.is_isolated = False
        self.pid = 0
        """The first process, as this machine counts."""

    async def open(self, volumes: list[tuple[str, str, bool]], *, isolated: bool, home: str, network: bool) -> None:
        """Make it, and wait until it is up."""
        root = os.path.dirname(self._place)
        self.is_isolated = isolated and can_isolate(root)
        tools = [TOOLS, f"#!{python()} -IS\n{_PROGRAMS['_fs_tools.py']}"]
        plan = {"isolated": self.is_isolated, "place": self._place, "volumes": volumes, "home": home, "tools": tools}
        self._requests, requests = socket.socketpair()
        replies_here, replies = socket.socketpair()
        unshare = [*_UNSHARE, *([] if network else ["--net"])] if self.is_isolated else []
        ends = [str(requests.fileno()), str(replies.fileno())]
        with requests, replies:
            self._holder = await asyncio.to_thread(
                subprocess.Popen,
                [*unshare, *_program(root, "_init.py"), *ends],
                stdin=subprocess.DEVNULL,
                pass_fds=[requests.fileno(), replies.fileno()],
                env={"PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
        await self._send(plan, [])
        self._replies, self._line = await asyncio.open_connection(sock=replies_here)
        if not await self._replies.readline():
            raise RuntimeError("the sandbox's first process did not come up; its own message is above")
        self.pid = children(self._holder.pid)[0] if self.is_isolated else self._holder.pid
        self._listener = asyncio.create_task(self._listen())

    @property
    def root(self) -> str:
        """Its root directory, as this machine sees it."""
        return f"/proc/{self.pid}/root" if self.is_isolated else "/"

    async def _listen(self) -> None:
        while line := await self._replies.readline():
            reply = json.loads(line)
            if "ended" in reply:
                status = ("code", reply["code"]) if "code" in reply else ("signal", reply["signal"])
                self._on_end(reply["ended"], status)
            else:
                self._starting.pop(reply.get("started") or reply["failed"]).set_result(reply)
        self._is_gone = True
        for waiting in self._starting.values():
            waiting.set_exception(EOFError("the sandbox has ended"))
        self._on_end(ENTRY, ("signal", signal.SIGKILL))

    async def start(
        self, name: str, argv: list[str], env: dict[str, str], cwd: str, streams: list[int]
    ) -> dict[str, Any]:
        """Start a command with these three streams; what came of it: ``started``, or ``failed`` and why.

        Raises:
            EOFError: The first process is gone.
        """
        if self._is_gone:
            raise EOFError("the sandbox has ended")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._starting[name] = answer
        if argv[0] == TOOLS and not self.is_isolated:
            argv = [*_program(os.path.dirname(self._place), "_fs_tools.py"), *argv[1:]]
        env = {**env, MARK: self._sandbox}
        await self._send({"do": "start", "name": name, "argv": argv, "env": env, "cwd": cwd}, streams)
        return await answer

    async def kill(self, name: str) -> None:
        """Kill the group of a command."""
        await self._send({"do": "kill", "name": name}, [])

    async def _send(self, request: dict[str, Any], streams: list[int]) -> None:
        async with self._turn:
            await asyncio.to_thread(self._send_all, _framed(request), streams)

    def _send_all(self, request: bytes, streams: list[int]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._requests, [request[:4]], streams)
            self._requests.sendall(request[4:])

    async def end(self) -> None:
        """End every process; returns when all are gone."""
        if self._holder is None:
            return
        await asyncio.to_thread(self._end, self._holder)
        if self._listener is not None:
            await self._listener
        self._line.close()

    def _end(self, holder: subprocess.Popen[bytes]) -> None:
        # The first process goes when nobody can tell it anything; the kernel ends its process table with it.
        below = [] if self.is_isolated else descendants(holder.pid)
        self._requests.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            holder.wait(2)
        for pid in (self.pid, *below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        holder.wait()
        kill_marked(MARK, self._sandbox)
