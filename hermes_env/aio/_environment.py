"""An environment and its commands, awaitable."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hermes_env._command import OUTPUT_LIMIT
from hermes_env._errors import CommandFailed, Unsupported

from ._bridge import Chunks, call_in_loop, in_thread, post, to_the_end
from ._files import Files
from ._session import OpeningSession

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from hermes_env import _base
    from hermes_env._capabilities import Capabilities, StdinMode
    from hermes_env._command import Command
    from hermes_env._launch import StdinLike, Stream
    from hermes_env._process import Process as SyncProcess
    from hermes_env._result import ExecResult, State

MAX_CONCURRENCY = 512
"""Default number of commands, and of file operations, that run at once in one environment."""

T = TypeVar("T")


class Environment:
    """A sync environment, awaitable. Everything not explained here is as in `hermes_env.BaseEnvironment`."""

    def __init__(self, env: _base.BaseEnvironment, *, max_concurrency: int = MAX_CONCURRENCY) -> None:
        """Wrap an open environment; to be called where the event loop runs."""
        self.sync = env
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(max_concurrency)
        self._pool = ThreadPoolExecutor(max_concurrency, thread_name_prefix="hermes-env-aio")
        self._files = Files(self)

    # -- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill what still runs and undo what opening made; done when it returns, also when it is cancelled."""
        await self.release(self.sync.close)

    async def detach(self) -> str:
        """Leave the environment running for others and return its ref."""
        try:
            return await in_thread(self.sync.detach)
        finally:
            self._pool.shutdown(wait=False)

    async def release(self, give: Callable[[], None]) -> None:
        """Hand the sync environment on to somebody else, and let go of what made it awaitable."""
        try:
            await in_thread(give)
        finally:
            self._pool.shutdown(wait=False)

    async def alive(self) -> bool:
        """Whether the environment is open and can take a command."""
        return self.sync._life.usable and await self.work(self.sync.alive)  # noqa: SLF001 - one framework

    @property
    def files(self) -> Files:
        """Read, write and list files in the environment."""
        return self._files

    @property
    def capabilities(self) -> Capabilities:
        """What the environment declares about itself."""
        return self.sync.capabilities

    @property
    def stdin_mode(self) -> StdinMode:
        """How stdin reaches a command."""
        return self.sync.stdin_mode

    @property
    def ref(self) -> str:
        """Text that `attach` takes."""
        return self.sync.ref

    @property
    def expires_at(self) -> datetime | None:
        """When the provider ends the environment by itself."""
        return self.sync.expires_at

    # -- commands -------------------------------------------------------------------------------------------------

    async def exec(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | AsyncIterable[bytes] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the command, which kills it
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], Awaitable[None] | None] | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end; cancelling the task kills it.

        Args are those of the sync `exec`. `stdin` may also be an async iterable; `on_output` is called in the event
        loop, may be a coroutine function, and holds up the command until it returns.

        Raises:
            HermesEnvError, OSError: As the sync `exec`.
        """
        settings = {
            "cwd": cwd,
            "env": env,
            "user": user,
            "timeout": timeout,
            "output_limit": output_limit,
            "merge_stderr": merge_stderr,
        }
        process = await self._begin(cmd, stdin, on_output, settings, live=False)
        result = await process.wait()
        if check and not result.ok:
            raise CommandFailed(f"exit code {result.exit_code}: command {process.id[:8]}", result)
        return result

    def session(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        shell: str | None = None,
    ) -> OpeningSession:
        """Open a session: ``async with env.session() as session`` or ``session = await env.session()``."""
        return OpeningSession(self, user, shell, {"cwd": cwd, "variables": env})

    async def start(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | AsyncIterable[bytes] | None = None,
        on_output: Callable[[Stream, bytes], Awaitable[None] | None] | None = None,
        **settings: Any,
    ) -> Process:
        """Start a command; returns as soon as it has its turn, before anything is staged.

        Args:
            cmd: See `exec`.
            stdin: See `exec`.
            on_output: See `exec`.
            **settings: Those of the sync `start`, ``live_stdin`` among them.
        """
        return await self._begin(cmd, stdin, on_output, settings, live=True)

    async def _begin(
        self,
        cmd: object,
        stdin: object,
        on_output: Callable[..., object] | None,
        settings: dict[str, Any],
        *,
        live: bool,
    ) -> Process:
        settings.setdefault("output_limit", OUTPUT_LIMIT)
        if on_output is not None:
            settings["on_output"] = self.in_loop(on_output)
        command = self.sync._command(cmd, stdin=self.blocking(stdin), **settings)  # noqa: SLF001 - one framework
        return await self.run(command, live=live)

    async def run(
        self,
        command: Command,
        *,
        live: bool,
        after: Callable[[SyncProcess], None] | None = None,
        release: Callable[[], None] | None = None,
    ) -> Process:
        """Run a checked command when it has its turn.

        Args:
            command: What to run.
            live: The output can be iterated.
            after: Called at the end, on the thread of the command, before anybody who waits goes on.
            release: Called at the end, in the loop.
        """
        await self._slots.acquire()
        try:
            process = self.sync._new_process(command)  # noqa: SLF001
        except BaseException:
            self._slots.release()
            raise
        return Process(process, self, live=live, after=after, release=release)

    def in_loop(self, call: Callable[..., object]) -> Callable[[Stream, bytes], None]:
        """A callback for the thread of a command that makes this call in the loop, and waits for it."""
        return functools.partial(call_in_loop, self._loop, call)

    def blocking(self, data: Any) -> Any:
        """Async iterables as iterables for the thread that reads them; everything else as it is."""
        return Chunks(data, self._loop) if hasattr(data, "__aiter__") else data

    async def work(self, work: Callable[[], T]) -> T:
        """Do blocking work on the pool, to its end.

        Raises:
            EnvironmentGone: The environment was closed.
        """
        self.sync._life.require_usable()  # noqa: SLF001 - one framework; a closed pool takes no work
        return await to_the_end(self._loop.run_in_executor(self._pool, work))


class Process:
    """One command, awaitable. See `hermes_env.Process`."""

    def __init__(
        self,
        process: SyncProcess,
        env: Environment,
        *,
        live: bool,
        after: Callable[[SyncProcess], None] | None = None,
        release: Callable[[], None] | None = None,
    ) -> None:
        """Run it; `Environment.start` calls this."""
        self._release = release
        self.sync = process
        self._env = env
        self._loop = loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()

        def ended(done: SyncProcess) -> None:
            env.sync._life.forget(done)  # noqa: SLF001 - one framework
            if after is not None:
                after(done)
            post(loop, self._on_end)

        process.run_in_thread(live=live, ended=ended)

    def _on_end(self) -> None:
        self._env._slots.release()  # noqa: SLF001 - one framework
        if self._release is not None:
            self._release()
        self._ended.set_result(None)

    @property
    def id(self) -> str:
        """32 hexadecimal digits, unique to this command."""
        return self.sync.id

    @property
    def state(self) -> State:
        """Where the command is."""
        return self.sync.state

    async def wait(self, timeout: float | None = None) -> ExecResult:  # noqa: ASYNC109 - as in the sync one
        """Wait for the end. Cancelling the task kills the command; a `timeout` that runs out kills nothing.

        Raises:
            TimeoutError: The wait ran out; the command goes on.
            CommandTimeout, CommandCancelled, OutcomeUnknown: How it ended.
        """
        try:
            done, _ = await asyncio.wait([self._ended], timeout=timeout)
        except asyncio.CancelledError:
            await self._kill_and_wait()
            raise
        if not done:
            raise TimeoutError(f"the command still runs after {timeout} s of waiting")
        return self.sync.wait()

    async def _kill_and_wait(self) -> None:
        try:
            await self.kill()
            await to_the_end(self._ended)
        except asyncio.CancelledError:
            return  # Cancelled once more; the caller raises it.

    async def kill(self) -> None:
        """End the command's whole tree now; done when it returns, also when it is cancelled."""
        await in_thread(self.sync.kill)

    async def terminate(self, grace: float = 5.0) -> None:
        """Ask the tree to end by TERM; kill what is left after `grace` seconds."""
        await in_thread(functools.partial(self.sync.terminate, grace))

    async def write(self, data: bytes) -> None:
        """Send bytes to the command's stdin. Cancelling the task kills the command, which may hold up the write."""
        await self._send(functools.partial(self.sync.write, data))

    async def close_stdin(self) -> None:
        """Let the command see end-of-file."""
        await self._send(self.sync.close_stdin)

    async def _send(self, work: Callable[[], None]) -> None:
        sending = asyncio.ensure_future(in_thread(work))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await self._kill_and_wait()
            await asyncio.wait([sending])
            sending.exception()
            raise

    async def __aiter__(self) -> AsyncIterator[tuple[Stream, bytes]]:
        """Output as it arrives; ends with the command."""
        live = self.sync._live  # noqa: SLF001 - one framework
        if live is None:
            raise Unsupported("iterate over a process that `start` returned")
        news = asyncio.Event()
        live.listen(lambda: post(self._loop, news.set))
        try:
            while True:
                news.clear()
                try:
                    item = live.take()
                except EOFError:
                    return
                if item is not None:
                    yield item
                else:
                    await news.wait()
        finally:
            live.listen(None)
