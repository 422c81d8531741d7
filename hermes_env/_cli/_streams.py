"""Bytes between our own standard streams and a command: as they come, unbuffered, unchanged."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from ._failure import OutputClosed

if TYPE_CHECKING:
    from hermes_env._launch import Stream
    from hermes_env._process import Process

_CHUNK = 1 << 16
"""Bytes per read: what a Linux pipe holds."""
_DESCRIPTORS: dict[Stream, int] = {"stdout": 1, "stderr": 2}


def forward(stream: Stream, data: bytes) -> None:
    """Write output of the command to our own stream of that name.

    Raises:
        OutputClosed: Nobody reads it any more.
    """
    write_all(_DESCRIPTORS[stream], data)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, also to a descriptor that someone made non-blocking.

    Raises:
        OutputClosed: Nobody reads it any more.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            _await(fd, select.POLLOUT)
        except BrokenPipeError as error:
            raise OutputClosed from error
        except OSError as error:
            raise OSError(error.errno, f"our own {'stdout' if fd == 1 else 'stderr'}: {error.strerror}") from error


def _await(fd: int, event: int) -> None:
    poller = select.poll()
    poller.register(fd, event)
    poller.poll()


def regular_stdin() -> BinaryIO | None:
    """Our stdin when it is a file, whose size is known; else None."""
    if stdin_is_closed() or not stat.S_ISREG(os.fstat(0).st_mode):
        return None
    return open(0, "rb", closefd=False)


def stdin_is_closed() -> bool:
    """Whether descriptor 0 was closed at start, which Python tells by None; what has that number now is not ours."""
    return sys.stdin is None


def chunks() -> Iterator[bytes]:
    """What arrives on our stdin, as soon as it arrives."""
    while not stdin_is_closed() and (chunk := _read()):
        yield chunk


def _read() -> bytes:
    while True:
        try:
            return os.read(0, _CHUNK)
        except BlockingIOError:
            _await(0, select.POLLIN)
        except OSError as error:
            # The terminal has gone, or never was ours: there is nothing to read.
            if error.errno == errno.EIO and os.isatty(0):
                return b""
            raise


class Feeder:
    """A thread that hands our stdin to a running command. It is left behind when the command ends first."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.error: OSError | None = None
        threading.Thread(target=self._run, name="hermes-env-stdin", daemon=True).start()

    def _run(self) -> None:
        try:
            for chunk in chunks():
                self._process.write(chunk)
            self._process.close_stdin()
        except ConnectionError:
            # The command has ended or closed its stdin, which is its right.
            return
        except OSError as error:
            # Killed before it can take a part of its input for all of it.
            self.error = error
            self._process.kill()
