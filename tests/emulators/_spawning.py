"""Starts commands where they belong: in a sandbox's own process table, or on this machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._namespace import Namespace

_CLONE_FS = 0x200
_libc = ctypes.CDLL(None, use_errno=True)


def spawner(threads: int = 2) -> ThreadPoolExecutor:
    """Threads that may call `spawn`; each has a working directory of its own, without which none may change `/`."""
    return ThreadPoolExecutor(threads, "spawn", initializer=lambda: _call("unshare", _CLONE_FS))


def spawn(argv: list[str], namespace: Namespace | None, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a direct child, so that its exit status and its signals are exact.

    Call it in a thread of `spawner` only: it enters the namespace and leaves it again.

    Raises:
        OSError: As `subprocess.Popen`.
    """
    if namespace is None:
        return subprocess.Popen(argv, **options)
    with _entered(namespace.pid):
        return subprocess.Popen(argv, **options)


@contextmanager
def _entered(pid: int) -> Iterator[None]:
    """Children of this thread are born in the process table and mounts of another process."""
    own = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("pid", "mnt")]
    theirs: list[int] = []
    try:
        theirs += [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("pid", "mnt")]
        try:
            for descriptor in theirs:
                _call("setns", descriptor, 0)
            yield
        finally:
            for descriptor in own:
                _call("setns", descriptor, 0)
    finally:
        for descriptor in own + theirs:
            os.close(descriptor)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
