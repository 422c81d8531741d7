"""Stdin of one command: slices that are sent and drained one after the other, on the SDK's loop."""

from __future__ import annotations

import asyncio
import collections
import errno
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from ._failures import closed_stdin

SLICE = 4 << 20
"""Most bytes of one message, which is one round trip: the SDK takes 16 MiB, and copies each some four times."""
FIRST = 1 << 20
"""Bytes of the first messages. Larger ones pay over a long way only: over loopback 32 MiB took 0.6 s in messages of
1 MiB, and 1.0 s in those of 4 MiB (SDK 1.6.4)."""
AGAIN = 2
"""Further tries of a call, after the ten of the SDK, as long as the worker is there."""


class Stdin:
    """What goes to the command, from any thread; `send` runs on the loop.

    The service counts bytes by their offset, so that a message that is sent again is not taken twice.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        answers: Callable[[BaseException], Awaitable[bool]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._answers = answers
        self._failed = failed
        self._pieces: collections.deque[memoryview] = collections.deque()
        self._held = 0
        self._ended = False
        self._broken = False
        self._changed = threading.Condition()
        self._some = asyncio.Event()
        self._pace = _Pace()

    # -- from the framework's threads -----------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """Take bytes; blocks while a slice is waiting.

        Raises:
            BrokenPipeError: The command reads no more, or has ended.
        """
        view = memoryview(data)
        for start in range(0, len(view), SLICE):
            # The caller may use its buffer for something else when this returns.
            self._put(bytes(view[start : start + SLICE]))

    def feed(self, data: memoryview) -> None:
        """Take all of stdin from memory that stays as it is until the command has ended."""
        with self._changed:
            self._take_in(data)
            self._ended = True
        self._wake()

    def close(self) -> None:
        """No more will come."""
        with self._changed:
            self._ended = True
        self._wake()

    def stop(self) -> None:
        """Nothing is sent any more, and whoever waits is told."""
        with self._changed:
            self._broken = True
            self._pieces.clear()
            self._changed.notify_all()

    def _put(self, data: bytes) -> None:
        with self._changed:
            while self._held >= SLICE and not self._broken:
                self._changed.wait()
            if self._broken or self._ended:
                raise BrokenPipeError(errno.EPIPE, "the command closed its stdin, or has ended")
            self._take_in(memoryview(data))
        self._wake()

    def _take_in(self, data: memoryview) -> None:
        if data:
            self._pieces.append(data)
        self._held += len(data)

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._some.set)

    # -- on the loop ----------------------------------------------------------------------------------------------

    async def send(self, stdin: Any) -> None:
        """Send what comes until its end; `stdin` is the SDK's writer."""
        try:
            while not await self._send_slice(stdin):
                pass
        except Exception as error:  # noqa: BLE001 - whatever it is, stdin is not whole
            # An end of file is never sent now: the command must not take a part of its input for all of it.
            self.stop()
            if not closed_stdin(error):
                self._failed(error)

    async def _send_slice(self, stdin: Any) -> bool:
        """Send one slice; whether it was the last."""
        await self._some.wait()
        self._some.clear()
        with self._changed:
            taken = self._take_out()
            last = self._ended and not self._pieces
            again = bool(self._pieces)
        if again:
            self._some.set()
        if not (taken or last):
            return False
        for piece in taken:
            stdin.write(piece)
        if last:
            stdin.write_eof()
        size, begin = sum(map(len, taken)), self._loop.time()
        await self._drain(stdin)
        self._pace.sent(size, self._loop.time() - begin)
        with self._changed:
            self._held -= size
            self._changed.notify_all()
        return last

    async def _drain(self, stdin: Any) -> None:
        """Send what the SDK's buffer holds; what failed stays in it and is sent from the same offset."""
        for _ in range(AGAIN):
            try:
                await stdin.drain.aio()
            except Exception as error:
                if closed_stdin(error) or not await self._answers(error):
                    raise
            else:
                return
        await stdin.drain.aio()

    def _take_out(self) -> list[memoryview]:
        taken, room = [], self._pace.size
        while self._pieces and room:
            piece = self._pieces.popleft()
            if len(piece) > room:
                self._pieces.appendleft(piece[room:])
                piece = piece[:room]
            taken.append(piece)
            room -= len(piece)
        return taken


class _Pace:
    """The size of messages: doubled as long as that makes stdin faster by half."""

    def __init__(self) -> None:
        self.size = FIRST
        self._best = 0.0
        self._settled = False

    def sent(self, size: int, seconds: float) -> None:
        """A message of that many bytes took that long."""
        if self._settled or size < self.size:
            return
        rate = size / max(seconds, 1e-6)
        if rate < 1.5 * self._best:
            self.size //= 2
            self._settled = True
            return
        self._best = rate
        self._settled = self.size == SLICE
        self.size = min(SLICE, 2 * self.size)
