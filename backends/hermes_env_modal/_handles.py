"""Connections to one sandbox: enough of them that the commands which run have a stream each for all that they move."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

MOST = 16
"""Commands on one connection. Each takes up to four streams of it, and servers allow 100 or more (RFC 9113, 6.5.2):
over that, stdin would wait for the end of commands that wait for their stdin."""


class Handle:
    """One of the SDK's objects for the sandbox, with a connection of its own."""

    def __init__(self, box: asyncio.Future[Any]) -> None:
        self.box = box
        self.running = 0


class Handles:
    """All of them for one sandbox; everything happens on the SDK's loop."""

    def __init__(self, first: Any, another: Callable[[], Awaitable[Any]]) -> None:
        self._first, self._another = first, another
        self._all: list[Handle] = []

    async def take(self) -> Handle:
        """A handle that has room for one more command; `give` it back.

        Raises:
            Exception: Whatever the SDK raises when the sandbox cannot be reached once more.
        """
        handle = next((handle for handle in self._all if handle.running < MOST), None)
        if handle is None:
            handle = self._make()
        handle.running += 1
        try:
            # Shielded: others may wait for the same connection.
            await asyncio.shield(handle.box)
        except BaseException:
            self.give(handle)
            self._drop_failed()
            raise
        return handle

    def _drop_failed(self) -> None:
        self._all = [handle for handle in self._all if not (handle.box.done() and handle.box.exception())]

    def _make(self) -> Handle:
        box: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._all:
            box = asyncio.ensure_future(self._another())
        else:
            box.set_result(self._first)
        handle = Handle(box)
        self._all.append(handle)
        return handle

    def give(self, handle: Handle) -> None:
        """The command is over. The SDK itself closes a connection that is not used for half a minute."""
        handle.running -= 1

    async def close(self) -> None:
        """Let go of all but the first, which is whose sandbox it is."""
        for handle in self._all[1:]:
            with contextlib.suppress(Exception):
                await (await handle.box).detach.aio()
