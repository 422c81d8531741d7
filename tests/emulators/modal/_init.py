"""First process of a sandbox: makes its private root, starts what it is told to, and tells how each of it ended.

Run by itself, without the rest of this package: ``python -I -S _init.py REQUESTS REPLIES``, the descriptors of two
sockets. A request is four bytes of length, with the command's three streams attached, and JSON; the first one is the
plan of the sandbox. A reply is a line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

_BIND_ALL = 4096 | 16384
"""MS_BIND | MS_REC of <linux/mount.h>."""
_READ_ONLY_BIND = 1 | 32 | 4096
"""MS_RDONLY | MS_REMOUNT | MS_BIND."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of <linux/prctl.h>."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """The system call."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _LIBC.mount(*texts, ctypes.c_ulong(flags), None if data is None else data.encode()):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), target)


def enter(plan: dict[str, Any]) -> None:
    """Make a root of its own, over this machine's files, and enter it."""
    place = plan["place"]
    mount("tmpfs", place, "tmpfs", data="mode=0755")
    for name in ("upper", "work", "root"):
        os.mkdir(f"{place}/{name}")
    root = f"{place}/root"
    mount("overlay", root, "overlay", data=f"lowerdir=/,upperdir={place}/upper,workdir={place}/work")
    for name in ("dev", "sys"):
        mount(f"/{name}", f"{root}/{name}", flags=_BIND_ALL)
    mount("proc", f"{root}/proc", "proc")
    for name in ("tmp", "run", "dev/shm"):
        mount("tmpfs", f"{root}/{name}", "tmpfs", data="mode=1777")
    for source, target, read_only in plan["volumes"]:
        inside = f"{root}/{target.lstrip('/')}"
        os.makedirs(inside, exist_ok=True)
        mount(source, inside, flags=_BIND_ALL)
        if read_only:
            mount(None, inside, flags=_READ_ONLY_BIND)
    os.chroot(root)
    os.chdir("/")
    os.makedirs(plan["home"], exist_ok=True)


def install(tools: list[str]) -> None:
    """Put the program in place that the SDK calls for files."""
    path, text = tools
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class Init:
    """What runs, by the names that the worker gave."""

    def __init__(self, requests: socket.socket, replies: socket.socket) -> None:
        self._requests, self._replies = requests, replies
        self._names: dict[int, str] = {}
        self._pids: dict[str, int] = {}

    def tell(self, **reply: Any) -> None:
        """Send a line."""
        self._replies.sendall(json.dumps(reply).encode() + b"\n")

    def serve(self) -> None:
        """Until the worker closes its end."""
        wake, woken = socket.socketpair()
        woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(self._requests, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        self.tell(up=os.getpid())
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if wake in ready:
                wake.recv(4096)
                self._reap()
            if self._requests in ready and not self._take():
                return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._names.pop(pid, None)
            if name is not None:
                del self._pids[name]
                code = os.waitstatus_to_exitcode(status)
                self.tell(ended=name, **({"code": code} if code >= 0 else {"signal": -code}))

    def receive(self) -> tuple[Any, list[int]]:
        """A request, or None when there are no more, and the streams that came with it."""
        head, streams, _, _ = socket.recv_fds(self._requests, 4, 3)
        return (json.loads(self._exactly(struct.unpack("!I", head)[0])) if head else None), streams

    def _take(self) -> bool:
        request, streams = self.receive()
        if request is None:
            return False
        if request["do"] == "kill":
            self._kill(request["name"])
        else:
            self._start(request, streams)
        for stream in streams:
            os.close(stream)
        return True

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self._requests.recv(size))
            if not parts[-1]:
                raise EOFError
            size -= len(parts[-1])
        return b"".join(parts)

    def _start(self, request: dict[str, Any], streams: list[int]) -> None:
        name = request["name"]
        try:
            child = subprocess.Popen(
                request["argv"],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=request["env"],
                cwd=request["cwd"],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            where = "workdir" if getattr(error, "filename", None) == request["cwd"] else "command"
            self.tell(failed=name, where=where, text=str(error))
            return
        child.returncode = 0  # its end is seen here, never by the module
        self._names[child.pid], self._pids[name] = name, child.pid
        self.tell(started=name, pid=child.pid)

    def _kill(self, name: str) -> None:
        pid = self._pids.get(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def main() -> None:
    """Take the place of the first process."""
    requests, replies = (socket.socket(fileno=int(text)) for text in sys.argv[1:3])
    for end in (requests, replies):
        end.set_inheritable(False)
    os.umask(0o022)
    # A first process gets no signal that it does not handle; Python would handle this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    init = Init(requests, replies)
    plan, _ = init.receive()
    if plan["isolated"]:
        enter(plan)
        install(plan["tools"])
    else:
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    init.serve()


if __name__ == "__main__":
    main()
