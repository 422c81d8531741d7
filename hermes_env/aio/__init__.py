"""The same names, awaitable, for asyncio: a thin façade over the sync core, which carries every byte.

::

    async with aio.open_environment("local") as env:
        result = await env.exec("cat", stdin=b"data")

Cancelling a task that runs a command kills the command, waits until that is done, and then raises
`asyncio.CancelledError`. Commands run on threads of their own, at most ``max_concurrency`` of them at once; further
ones wait for their turn. An environment belongs to the event loop in which it was opened.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from hermes_env import _registry

from ._bridge import in_thread
from ._environment import MAX_CONCURRENCY, Environment, Process
from ._files import Files
from ._pool import EnvironmentPool
from ._session import Session

if TYPE_CHECKING:
    from types import TracebackType

    from hermes_env._base import BaseEnvironment

__all__ = [
    "MAX_CONCURRENCY",
    "Environment",
    "EnvironmentPool",
    "Files",
    "Process",
    "Session",
    "attach",
    "open_environment",
]


class Opening:
    """What `open_environment` returns: awaitable, and an async context manager."""

    def __init__(self, make: Callable[[], BaseEnvironment], max_concurrency: int) -> None:
        self._make = make
        self._max_concurrency = max_concurrency
        self._env: Environment | None = None

    def __await__(self) -> Generator[Any, None, Environment]:
        return self._open().__await__()

    async def _open(self) -> Environment:
        opened: list[BaseEnvironment] = []
        try:
            await in_thread(lambda: opened.append(self._make()))
        except asyncio.CancelledError:
            for env in opened:
                await in_thread(env.close)
            raise
        return Environment(opened[0], max_concurrency=self._max_concurrency)

    async def __aenter__(self) -> Environment:
        self._env = await self._open()
        return self._env

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._env is not None
        await self._env.close()


def open_environment(name: str, *, max_concurrency: int = MAX_CONCURRENCY, **settings: Any) -> Opening:
    """Open an environment: ``async with aio.open_environment(...) as env`` or ``env = await ...``.

    Args:
        name: See `hermes_env.open_environment`.
        max_concurrency: Commands, and file operations, that run at once; further ones wait for their turn.
        **settings: ``cwd``, ``env``, ``timeout`` and the options of the backend.
    """
    return Opening(functools.partial(_registry.open_environment, name, **settings), max_concurrency)


def attach(ref: str, *, max_concurrency: int = MAX_CONCURRENCY, **settings: Any) -> Opening:
    """Join an environment that another client made; see `hermes_env.attach`."""
    return Opening(functools.partial(_registry.attach, ref, **settings), max_concurrency)
