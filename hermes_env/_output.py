"""Collectors of a command's output: bounded memory, exact totals."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._launch import Stream

_LIVE_BACKLOG = 4 << 20
"""Bytes that a reader of live output may be behind before the command is made to wait."""


_OPENING = 4096


class BoundedBuffer:
    """Keeps all bytes up to a limit; over it, the first half and the last half of the limit."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self.opening = b""
        """The first 4 KiB, whatever the limit."""
        self._limit = limit
        self._head = io.BytesIO()
        self._tail: bytearray | None = None
        self._cursor = 0

    def write(self, data: bytes) -> None:
        """Take a chunk."""
        if self.total < _OPENING:
            self.opening += data[: _OPENING - self.total]
        self.total += len(data)
        if self._tail is not None:
            self._write_tail(data)
        elif self.total <= self._limit:
            self._head.write(data)
        else:
            self._overflow(data)

    def getvalue(self) -> bytes:
        """The bytes kept, in order."""
        if self._tail is None:
            return self._head.getvalue()
        ring = self._tail
        return self._head.getvalue() + bytes(ring[self._cursor :]) + bytes(ring[: self._cursor])

    def _overflow(self, data: bytes) -> None:
        """Turn from "keep all" to "keep both halves"."""
        kept = self._head.getvalue()
        half = self._limit // 2
        self._head = io.BytesIO()
        self._head.write((kept + data[: max(0, half - len(kept))])[:half])
        rest = self._limit - half
        both = kept[-rest:] + data if rest else b""
        # total > limit, so at least `rest` bytes follow the head.
        self._tail = bytearray(both[-rest:]) if rest else bytearray()

    def _write_tail(self, data: bytes) -> None:
        ring = self._tail
        assert ring is not None
        size = len(ring)
        if len(data) >= size:
            ring[:] = data[len(data) - size :]
            self._cursor = 0
            return
        first = min(len(data), size - self._cursor)
        ring[self._cursor : self._cursor + first] = data[:first]
        ring[: len(data) - first] = data[first:]
        self._cursor = (self._cursor + len(data)) % size


class LiveOutput:
    """Chunks for a reader that iterates over a running command, in order of arrival.

    Until someone reads, the newest `limit` bytes are kept; then the command waits for a slow reader.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[tuple[Stream, bytes]] = deque()
        self._size = 0
        self._reading = False
        self._closed = False
        self._released = False
        self._changed = threading.Condition()
        self._listener: Callable[[], None] | None = None

    def put(self, stream: Stream, data: bytes) -> None:
        """Take a chunk; blocks while a reader is far behind."""
        with self._changed:
            self._chunks.append((stream, data))
            self._size += len(data)
            while self._size > self._limit and not self._reading:
                self._size -= len(self._chunks.popleft()[1])
            self._notify()
            self._changed.wait_for(self._may_go_on)

    def _may_go_on(self) -> bool:
        return self._closed or self._released or not self._reading or self._size <= _LIVE_BACKLOG

    def release(self) -> None:
        """A slow reader no longer makes the command wait: it is being killed."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def close(self) -> None:
        """No more chunks will come."""
        with self._changed:
            self._closed = True
            self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._listener is not None:
            self._listener()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call `listener` whenever `take` may have something new, for a reader that must not block; None: no more."""
        with self._changed:
            self._listener = listener
            self._reading = listener is not None
            self._notify()

    def take(self) -> tuple[Stream, bytes] | None:
        """The next chunk, without waiting; None when there is none yet.

        Raises:
            EOFError: No more chunks will come.
        """
        with self._changed:
            if self._chunks:
                return self._pop()
            if self._closed:
                raise EOFError
            return None

    def _pop(self) -> tuple[Stream, bytes]:
        item = self._chunks.popleft()
        self._size -= len(item[1])
        self._changed.notify_all()
        return item

    def __iter__(self) -> Iterator[tuple[Stream, bytes]]:
        with self._changed:
            self._reading = True
        try:
            while (item := self._next()) is not None:
                yield item
        finally:
            with self._changed:
                self._reading = False
                self._changed.notify_all()

    def _next(self) -> tuple[Stream, bytes] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._chunks))
            return self._pop() if self._chunks else None
