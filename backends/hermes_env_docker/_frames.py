"""What an exec's connection carries: multiplexed frames, and in them the end marks of our wrapper. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

_HEADER = Struct(">BxxxL")
_WHOLE = 4096
"""Frames up to this size are given out whole; of larger ones, whatever has come."""

WRAPPER = (
    'r(){ shift;if command -v setsid >/dev/null 2>&1;then (exec setsid /bin/sh -c "$@" 2>&3 3>&-);'
    'else (exec /bin/sh -c "$@" 2>&3 3>&-);fi;};'
    'm(){ until printf "\\036%s %s\\n" "$1" "$2";do sleep 0.05||return;done;};'
    'trap : HUP INT TERM;{ r "$@";set -- "$1" "$?";m "$@";m "$@" >&3;} 3>&2 2>/dev/null;exit "$2"'
)
"""Runs a script as the leader of its own session, then writes an end mark with its exit code on both streams.

``$1`` is the mark's secret, the rest goes to ``/bin/sh -c``. The marks tell three things that the engine does not: that
all output of the main process has come (a connection cut between two frames looks like its end), that it ended while
a background child holds its streams (engine 20.10 says so two seconds later), and that it was started at all.
No variable is set: any name may be one of the caller's. Its own complaints ("Killed") go to /dev/null. A command may
have made its streams non-blocking and full, so the mark is tried again.
"""


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


class EndMark:
    """Finds the wrapper's end mark in one stream and takes it out."""

    def __init__(self, secret: str) -> None:
        self._mark = b"\x1e" + secret.encode("ascii") + b" "
        self._kept = b""
        self.status: int | None = None
        """Exit code that the mark carried; None until it has come."""

    def feed(self, data: bytes) -> bytes:
        """What of the data is the command's; the start of a mark is kept until the rest has come."""
        if self.status is not None:
            return data
        if self._kept:
            data = self._kept + data
            self._kept = b""
        at = data.find(self._mark)
        if at < 0:
            return self._keep_start(data)
        end = data.find(b"\n", at)
        if end < 0:
            self._kept = data[at:]
            return data[:at]
        self.status = int(data[at + len(self._mark) : end])
        return data[:at] + data[end + 1 :]

    def _keep_start(self, data: bytes) -> bytes:
        at = data.rfind(b"\x1e", max(0, len(data) - len(self._mark)))
        if at < 0 or not self._mark.startswith(data[at:]):
            return data
        self._kept = data[at:]
        return data[:at]

    def rest(self) -> bytes:
        """What was kept and turned out to be no mark, when the stream has ended."""
        kept, self._kept = self._kept, b""
        return kept
