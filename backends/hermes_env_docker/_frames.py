"""What an exec's connection carries: multiplexed frames. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

_HEADER = Struct(">BxxxL")
_WHOLE = 4096
"""Frames up to this size are given out whole; of larger ones, whatever has come."""


class FrameReader:
    """Splits a byte stream into frames; at most 1 MiB is held."""

    def __init__(self, early: bytes = b"") -> None:
        self._buffer = bytearray(1 << 20)
        self._view = memoryview(self._buffer)
        self._buffer[: len(early)] = early
        self._start, self._end = 0, len(early)
        self._stream, self._left = 0, 0

    def free(self) -> memoryview:
        """Where the next bytes of the connection go; `filled` says how many came."""
        rest = self._end - self._start
        if self._start:
            self._buffer[:rest] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, rest
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """`count` bytes were put where `free` said."""
        self._end += count

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """The stream numbers and contents that have come."""
        while True:
            if self._left == 0:
                if self._end - self._start < _HEADER.size:
                    return
                self._stream, self._left = _HEADER.unpack_from(self._buffer, self._start)
                self._start += _HEADER.size
                continue
            take = min(self._left, self._end - self._start)
            if take == 0 or take < min(self._left, _WHOLE):
                return
            data = bytes(self._view[self._start : self._start + take])
            self._start += take
            self._left -= take
            yield self._stream, data

    @property
    def torn(self) -> bool:
        """The stream stopped inside a frame."""
        return self._left > 0 or self._end > self._start
