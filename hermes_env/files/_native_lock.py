"""Writers of one file in place, one after the other: a copy taken while another one writes is worth nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from hermes_env._errors import FileChanged

from ._native_io import opened
from ._oserror import os_error

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 60.0
"""Seconds that another process may hold the lock: a program could keep its own lock file locked for ever."""
_PAUSE = 0.005
"""Seconds between two tries."""


class _Mutex:
    """A lock that can be forgotten when nobody uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_known: WeakValueDictionary[tuple[int, int], _Mutex] = WeakValueDictionary()
_known_lock = threading.Lock()


@contextmanager
def alone_in(name: bytes, path: str) -> Iterator[None]:
    """Keep other in-place writers of the file `name` out, of this process and of others.

    Raises:
        FileChanged: The name went to another file while this waited.
        OSError: EBUSY when another program keeps it locked for a minute.
    """
    with opened(name, os.O_RDWR) as fd:
        state = os.fstat(fd)
        inode = (state.st_dev, state.st_ino)
        with _known_lock:
            mutex = _known.setdefault(inode, _Mutex())
        with mutex.lock:
            _lock_out_processes(fd, path)
            now = os.stat(name)
            if (now.st_dev, now.st_ino) != inode:
                raise FileChanged(path, "was replaced by another writer meanwhile")
            # Closing the descriptor gives the lock back.
            yield


def _lock_out_processes(fd: int, path: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                return  # File systems without locks: the checks of the bytes remain.
        else:
            return
        if time.monotonic() > deadline:
            raise os_error(errno.EBUSY, path, "another program keeps it locked")
        time.sleep(_PAUSE)
