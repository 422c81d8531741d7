"""Between threads and the event loop: work on threads that a cancellation waits for, and calls back into the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hermes_env._launch import Stream

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do blocking work on a fresh thread, to its end: a cancellation is raised only when it is done.

    Fresh, because a kill must never wait for a thread that something else has.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the task
            post(loop, _settle, future, None, error)
        else:
            post(loop, _settle, future, value, None)

    threading.Thread(target=run, name="hermes-env-aio", daemon=True).start()
    return await to_the_end(future)


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    """Call in the loop, from any thread; a loop that was closed meanwhile has nobody who waits."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        return


async def to_the_end(future: asyncio.Future[T]) -> T:
    """Wait for something that cannot be interrupted; a cancellation meanwhile is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        future.exception()  # Seen: the cancellation goes first.
        raise cancelled  # The very one: scopes of anyio know theirs by what it says.
    return future.result()


class Chunks(Iterator[bytes]):
    """An async iterable, read by a thread that is not the loop's."""

    def __init__(self, source: AsyncIterable[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._source = aiter(source)
        self._loop = loop

    def __next__(self) -> bytes:
        found, chunk = asyncio.run_coroutine_threadsafe(self._step(), self._loop).result()
        if not found:
            raise StopIteration
        return chunk

    async def _step(self) -> tuple[bool, bytes]:
        # StopAsyncIteration cannot leave a coroutine.
        try:
            return True, await anext(self._source)
        except StopAsyncIteration:
            return False, b""


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], stream: Stream, data: bytes) -> None:
    async def run() -> None:
        answer = call(stream, data)
        if isinstance(answer, Awaitable):
            await answer

    asyncio.run_coroutine_threadsafe(run(), loop).result()
