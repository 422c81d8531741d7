"""Our own standard streams: a closed one keeps its number, so that no file or socket of ours gets it."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ._failure import OutputClosed
from ._streams import write_all

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def park() -> None:
    """Give every closed standard stream the null device, for reading: stdin is at its end, and writes fail.

    ``sys.stdin`` stays None when it was closed, which tells so.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number is the one that is missing.
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.stdout = _text(1, sys.stdout)
    if sys.stderr is None:
        sys.stderr = _text(2, None)


class _Stream(io.RawIOBase):
    """A descriptor whose failures say that it is ours."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def fileno(self) -> int:
        """The number."""
        return self._fd

    def isatty(self) -> bool:
        """A person looks."""
        return os.isatty(self._fd)

    def writable(self) -> bool:
        """Always, as far as can be told."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Write every byte.

        Raises:
            OSError, OutputClosed: See `write_all`.
        """
        view = memoryview(data).cast("B")
        write_all(self._fd, view)
        return len(view)


def _text(fd: int, like: object) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(fd)),
        encoding=getattr(like, "encoding", "utf-8"),
        errors=getattr(like, "errors", "replace"),
        line_buffering=os.isatty(fd),
    )


def settle() -> None:
    """Leave nothing in the buffer of stdout: Python flushes it at exit, and would complain there."""
    try:
        sys.stdout.flush()
    except (OSError, OutputClosed):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        with suppress(OSError, OutputClosed):
            sys.stdout.flush()
