"""Files of an environment, awaitable."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from hermes_env import files

from ._bridge import in_thread

if TYPE_CHECKING:
    from hermes_env._launch import StdinLike

    from ._environment import Environment

P = ParamSpec("P")
T = TypeVar("T")


def _awaitable(method: Callable[Concatenate[files.Files, P], T]) -> Callable[Concatenate[Files, P], Awaitable[T]]:
    """The same operation, on the pool. It is not interrupted: a cancellation is raised when it has ended."""

    @functools.wraps(method)
    async def run(self: Files, *args: P.args, **kwargs: P.kwargs) -> T:
        env = self._env
        own = getattr(env.sync.files, method.__name__)
        return cast("T", await env.work(functools.partial(own, *args, **kwargs)))

    return cast("Callable[Concatenate[Files, P], Awaitable[T]]", run)


class Files:
    """Files of an environment, awaitable. See `hermes_env.files.Files`.

    An operation that has begun is not interrupted: a task cancelled meanwhile raises when it has ended, so a file is
    either as it was or as it should be.
    """

    def __init__(self, env: Environment) -> None:
        """`Environment.files` makes it."""
        self._env = env

    async def write_bytes(
        self, path: str, data: StdinLike | AsyncIterable[bytes], **settings: Any
    ) -> files.WriteResult:
        """Write a file as a whole; `data` may also be an async iterable, `settings` are those of the sync one."""
        env = self._env
        work = functools.partial(env.sync.files.write_bytes, path, env.blocking(data), **settings)
        return await env.work(work)

    read_bytes = _awaitable(files.Files.read_bytes)
    read_many = _awaitable(files.Files.read_many)
    sha256 = _awaitable(files.Files.sha256)
    exists = _awaitable(files.Files.exists)
    stat = _awaitable(files.Files.stat)
    list_dir = _awaitable(files.Files.list_dir)
    make_dir = _awaitable(files.Files.make_dir)
    remove = _awaitable(files.Files.remove)
    move = _awaitable(files.Files.move)
    commit = _awaitable(files.Files.commit)
    upload = _awaitable(files.Files.upload)
    download = _awaitable(files.Files.download)
    survey = _awaitable(files.Files.survey)
    sweep = _awaitable(files.Files.sweep)

    async def read_chunks(self, path: str) -> AsyncIterator[bytes]:
        """Chunks of a file; raises at its end when the digest differs."""
        env = self._env
        chunks = await env.work(lambda: iter(env.sync.files.read_chunks(path)))
        try:
            while (chunk := await env.work(lambda: next(chunks, None))) is not None:
                yield chunk
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                await in_thread(close)
