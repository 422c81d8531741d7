"""Parsers of what the file scripts print. Pure; whatever stands outside records and frames is noise and dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_env._codec import decode_lossless

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE_LIMIT = 4096
"""Bytes of noise that are searched for the start of a frame at a time; header lines are far shorter."""
_RECORD_LIMIT = 1 << 16
"""Bytes of one record or header in a stream of contents; what never ends must not fill the memory."""


def records(output: bytes, nonce: str) -> list[tuple[str, ...]]:
    """The fields of every record, in order."""
    begin, end = b"\n%s{\0" % nonce.encode(), b"\0}%s\n" % nonce.encode()
    found = []
    position = output.find(begin)
    while position >= 0:
        start = position + len(begin)
        stop = output.find(end, start)
        if stop < 0:
            break
        found.append(tuple(decode_lossless(field) for field in output[start:stop].split(b"\0")))
        position = output.find(begin, stop)
    return found


@dataclass(frozen=True, slots=True)
class Header:
    """What comes: so many bytes, hashed by that tool (``none`` where there is none)."""

    size: int
    by: str


class FrameReader:
    """Takes output in pieces of any size, and gives content to `body` as it arrives.

    Calls ``begin(header)``, ``body(bytes)`` any number of times and ``end(sum)`` for each content; ``end(None)`` when
    the content was shorter than announced. Records in between go to ``record(fields)``.
    """

    def __init__(
        self,
        nonce: str,
        *,
        begin: Callable[[Header], None],
        body: Callable[[bytes], None],
        end: Callable[[str | None], None],
        record: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._nonce = nonce
        self._mark = f"\n{nonce}".encode()
        self._begin, self._body, self._end, self._record = begin, body, end, record
        self._left = 0
        self._in_body = False
        self._tail = b""
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Take output."""
        if self._in_body and self._left and not self._held:
            if len(data) <= self._left:
                self._give(data)
                return
            self._give(data[: self._left])
            data = data[-(len(data) - self._taken) :]
        self._held += data
        while self._step():
            pass

    def _give(self, data: bytes) -> None:
        self._taken = len(data)
        self._left -= len(data)
        self._tail = (self._tail + data[-_LINE_LIMIT:])[-_LINE_LIMIT:]
        self._body(data)

    def _step(self) -> bool:
        """Use up a part of what is held; False when more is needed."""
        if self._in_body and self._left:
            if not self._held:
                return False
            part = self._held[: self._left]
            self._held = self._held[len(part) :]
            self._give(part)
            return True
        at = self._held.find(self._mark)
        if at < 0:
            # The mark may be cut in two.
            self._held = self._held[-len(self._mark) :]
            return False
        return self._line(at + len(self._mark))

    def _line(self, start: int) -> bool:
        """What follows a mark."""
        held = self._held
        if len(held) <= start:
            return False
        if held[start : start + 1] == b"{":
            stop = held.find(b"\0}" + self._mark[1:] + b"\n", start)
            if stop < 0:
                return self._overlong(start)
            self._record(tuple(decode_lossless(f) for f in held[start + 2 : stop].split(b"\0")))
            self._held = held[stop + len(self._mark) + 2 :]
            return True
        stop = held.find(b"\n", start)
        if stop < 0:
            return self._overlong(start)
        self._held = held[stop + 1 :]
        self._announce(held[start:stop].decode("ascii", "replace").split())
        return True

    def _overlong(self, start: int) -> bool:
        """What has no end yet: more may come, but not without bound; then it was noise."""
        if len(self._held) - start <= _RECORD_LIMIT:
            return False
        self._held = self._held[start:]
        return True

    def _announce(self, words: list[str]) -> None:
        match words:
            case ["R", size, by] if size.isdigit():
                self._left, self._in_body, self._tail = int(size), True, b""
                self._begin(Header(self._left, by))
            case ["T", *rest] if self._in_body:
                self._in_body = False
                self._end(rest[0] if rest else "")
            case _:
                return

    def close(self) -> None:
        """No more output comes; a content that is still open ended early."""
        if not self._in_body:
            return
        self._in_body = False
        if self._mark + b" T" in self._tail + self._held:
            self._end(None)
