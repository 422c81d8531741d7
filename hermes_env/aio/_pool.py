"""A pool of warm environments, awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from hermes_env import _pool, _validate

from ._bridge import in_thread, post
from ._environment import MAX_CONCURRENCY, Environment

if TYPE_CHECKING:
    from types import TracebackType

    from hermes_env._base import BaseEnvironment


class EnvironmentPool:
    """A pool, awaitable. Everything not explained here is as in `hermes_env.EnvironmentPool`."""

    def __init__(
        self, backend: str | Callable[[], BaseEnvironment], *, max_concurrency: int = MAX_CONCURRENCY, **settings: Any
    ) -> None:
        """Begin to open environments.

        Args:
            backend: A backend's name, or a function that opens an environment and is called on a thread.
            max_concurrency: Commands, and file operations, that run at once in one environment.
            **settings: Those of the sync pool.
        """
        self.sync = _pool.EnvironmentPool(backend, **settings)
        self._max_concurrency = max_concurrency

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def stats(self) -> _pool.PoolStats:
        """What the pool holds now."""
        return self.sync.stats

    async def close(self) -> None:
        """Close every environment; done when it returns, also when it is cancelled."""
        await in_thread(self.sync.close)

    @asynccontextmanager
    async def take(self, timeout: float | None = None) -> AsyncIterator[Environment]:  # noqa: ASYNC109 - as in sync
        """Hold an open environment for as long as the block runs; a task cancelled while it waits takes none.

        Raises:
            PoolExhausted, EnvironmentGone, BackendUnavailable, HermesEnvError: As the sync `take`.
        """
        sync, limit = self.sync, _validate.check_timeout("timeout", timeout)
        waiter: _pool.Waiter = Future()
        try:
            await in_thread(lambda: sync._ask(waiter))  # noqa: SLF001 - one framework
            await _served(waiter, limit)
            env = Environment(sync._served(waiter, timeout), max_concurrency=self._max_concurrency)  # noqa: SLF001 - one framework
        except BaseException:
            await in_thread(lambda: sync._withdraw(waiter))  # noqa: SLF001 - one framework
            raise
        try:
            yield env
        finally:
            await env.release(lambda: sync._give_back(env.sync))  # noqa: SLF001 - one framework


async def _served(waiter: _pool.Waiter, limit: float | None) -> None:
    """Wait for the future, without taking it away from whoever serves it."""
    loop, served = asyncio.get_running_loop(), asyncio.Event()
    waiter.add_done_callback(lambda _: post(loop, served.set))
    try:
        await asyncio.wait_for(served.wait(), limit)
    except TimeoutError:
        return
