"""What a caller may give as stdin or file content, turned into chunks that are read once."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, cast

from ._errors import InvalidArgument
from ._launch import StdinSource

CHUNK = 1 << 20
"""Bytes per chunk: larger ones measured no faster, and memory is queue depth times chunk."""


def source_of(data: object, argument: str = "stdin") -> StdinSource | None:
    """Wrap what the caller gave; None and empty bytes are both "end-of-file at once".

    Raises:
        InvalidArgument: The value is text, or neither bytes, nor a binary file, nor an iterable.
    """
    if data is None:
        return None
    if isinstance(data, bytes | bytearray | memoryview):
        view = in_memory(data)
        return StdinSource(len(view), _slices(view)) if len(view) else None
    if isinstance(data, str):
        raise InvalidArgument(argument, "is text; encode it to bytes first")
    if hasattr(data, "read"):
        return StdinSource(_remaining(cast("BinaryIO", data)), _from_file(cast("BinaryIO", data), argument))
    if isinstance(data, Iterable):
        return StdinSource(None, _from_iterable(cast("Iterable[bytes]", data), argument))
    raise InvalidArgument(argument, f"is {type(data).__name__}; give bytes, a binary file or an iterable of bytes")


def in_memory(data: bytes | bytearray | memoryview) -> memoryview:
    """The bytes of a buffer; one that is not contiguous is copied."""
    view = memoryview(data)
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def _slices(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def _remaining(file: BinaryIO) -> int | None:
    """Bytes left in a regular file; None for pipes, sockets and objects without a descriptor."""
    try:
        status = os.fstat(file.fileno())
        return max(0, status.st_size - file.tell()) if stat.S_ISREG(status.st_mode) else None
    except (OSError, AttributeError, ValueError):
        return None


def _from_file(file: BinaryIO, argument: str) -> Iterator[bytes]:
    read = cast("Callable[[int], bytes | None]", file.read)
    while (chunk := read(CHUNK)) != b"":
        if chunk is None:
            # A non-blocking file without data now; that is not its end.
            select.select([file], [], [])
        else:
            yield _checked(chunk, argument)


def _from_iterable(chunks: Iterable[bytes], argument: str) -> Iterator[bytes | memoryview]:
    for chunk in chunks:
        view = in_memory(_checked(chunk, argument))
        # An empty chunk is passed on: whoever draws sees between any two whether bytes are still wanted.
        yield from _slices(view) if view else (view,)


def _checked(chunk: bytes, argument: str) -> bytes:
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise InvalidArgument(argument, f"gave a chunk of {type(chunk).__name__}; every chunk must be bytes")
    return chunk
