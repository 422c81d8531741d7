"""The process above the server: whatever ends, nothing that the server started outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of <linux/prctl.h>: orphans below come to this process."""


def guard(program: str, arguments: list[str]) -> int:
    """Run a program as server until stdin ends, a signal comes or the server dies; then end everything below.

    Args:
        program: What Python runs. It is given ``--server FD`` and writes one line of JSON to that descriptor when it
            is ready; this line goes to stdout. Its member ``root`` names a directory to remove in the end.
        arguments: What it is given besides.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(wake_write, b"x"))
    ready_read, ready_write = os.pipe()
    argv = [sys.executable, program, "--server", str(ready_write), *arguments]
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[ready_write])
    os.close(ready_write)
    root = None
    try:
        with os.fdopen(ready_read) as file:
            line = file.readline()
        if not line:
            return server.wait() or 1
        root = json.loads(line)["root"]
        sys.stdout.write(line)
        sys.stdout.flush()
        _wait(server, wake_read)
        return 0
    finally:
        _end(server)
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], wake: int) -> None:
    """Until stdin ends, a signal comes, or the server dies."""
    pidfd = os.pidfd_open(server.pid)
    try:
        while True:
            readable = select.select([pidfd, wake, 0], [], [])[0]
            if pidfd in readable or wake in readable or os.read(0, 4096) == b"":
                return
    finally:
        os.close(pidfd)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(3)
    while below := descendants(os.getpid()):
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.002)


def descendants(pid: int) -> list[int]:
    """Processes below this one; zombies count until they are waited for."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
