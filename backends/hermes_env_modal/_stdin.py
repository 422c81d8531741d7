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
"""Bytes of one message, which is one round trip: the SDK takes 16 MiB, and copies each some four times (SDK 1.6.4)."""
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
        self._pieces.extend(data[start : start + SLICE] for start in range(0, len(data), SLICE))
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
        await self._drain(stdin)
        with self._changed:
            self._held -= sum(map(len, taken))
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
        taken, size = [], 0
        while self._pieces and size + len(self._pieces[0]) <= SLICE:
            taken.append(self._pieces.popleft())
            size += len(taken[-1])
        return taken
