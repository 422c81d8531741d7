"""Everything that moves for one command on the SDK's loop: stdin, both streams of output, and the wait for its end."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from ._failures import refused
from ._stdin import AGAIN, Stdin

Stream = Literal["stdout", "stderr"]
_HELD = 4 << 20
"""Bytes of output that wait for the framework; over it the SDK's stream is left alone, and the service waits."""


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes of a stream; none at its end."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Exit:
    """The service says that the command has ended."""

    code: int
    """-1 when the service ended it at the time limit that it was given."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A call of the SDK failed for good."""

    what: Literal["stdin", "output", "wait", "channel"]
    error: BaseException


Event = Output | Exit | Lost


class Pumps:
    """Made on the loop; `events` is read by the framework's thread."""

    def __init__(self, process: Any, over: Callable[[], None], *, with_stdin: bool) -> None:
        """`over` is called on the loop, once nothing moves any more."""
        self.loop = asyncio.get_running_loop()
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.exited = False
        self.stdin = Stdin(self.loop, self._answers, lambda error: self.events.put(Lost("stdin", error)))
        self._process, self._over = process, over
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        work = [self._receive("stdout", process.stdout), self._receive("stderr", process.stderr), self._wait(process)]
        if with_stdin:
            work.append(self.stdin.send(process.stdin))
        self._tasks = [asyncio.create_task(_quiet(each)) for each in work]

    async def _receive(self, stream: Stream, source: Any) -> None:
        failures = 0
        while True:
            try:
                async for data in source:
                    failures = 0
                    await self._keep(Output(stream, data))
                break
            except Exception as error:  # noqa: BLE001 - the framework's thread raises it
                failures += 1
                if failures > AGAIN or not await self._answers(error):
                    self.events.put(Lost("output", error))
                    return
        self.events.put(Output(stream, b""))

    async def _keep(self, output: Output) -> None:
        self.events.put(output)
        self._waiting += len(output.data)
        if self._waiting > _HELD:
            self._room.clear()
            await self._room.wait()

    async def _answers(self, error: BaseException) -> bool:
        """Whether the worker is there after a call to it failed for good: then the call is worth another try.

        Streams are counted by offset. Those of all commands share a connection, and the SDK gives each up after ten
        failures in a row: calls of one that break the connection would end the others.
        """
        if refused(error):
            return False
        try:
            await self._process.poll.aio()
        except Exception:  # noqa: BLE001 - the first error is told
            return False
        return True

    async def _wait(self, process: Any) -> None:
        try:
            code = await process.wait.aio()
        except Exception as error:  # noqa: BLE001 - the framework's thread raises it
            self.events.put(Lost("wait", error))
            return
        self.exited = True
        self.stdin.stop()
        self.events.put(Exit(code))

    def taken(self, size: int) -> None:
        """The framework has taken that many bytes of output. Any thread."""
        self.loop.call_soon_threadsafe(self._make_room, size)

    def _make_room(self, size: int) -> None:
        self._waiting -= size
        if self._waiting <= _HELD:
            self._room.set()

    def stop(self) -> None:
        """End all of it, and wake the framework's thread. Any thread."""
        self.stdin.stop()
        self.events.put(Lost("channel", ConnectionError("the channel was aborted")))
        self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._over()


async def _quiet(work: Coroutine[Any, Any, None]) -> None:
    """Work whose cancellation is nobody's business."""
    try:
        await work
    except asyncio.CancelledError:
        return
