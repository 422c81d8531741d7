"""Sessions, awaitable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from hermes_env import _validate
from hermes_env._command import OUTPUT_LIMIT
from hermes_env._errors import CommandFailed, CommandTimeout
from hermes_env._session_state import SessionState, nothing_ran, require_stored

from ._bridge import in_thread

if TYPE_CHECKING:
    from types import TracebackType

    from hermes_env._launch import StdinLike, Stream
    from hermes_env._process import Process as SyncProcess
    from hermes_env._result import ExecResult
    from hermes_env._session_state import Planned

    from ._environment import Environment, Process


class Session:
    """A session, awaitable. Everything not explained here is as in `hermes_env.Session`."""

    def __init__(self, env: Environment, state: SessionState) -> None:
        self._env = env
        self._state = state
        self._turn = asyncio.Lock()
        self._running: Process | None = None

    @property
    def shell(self) -> str:
        """The shell that runs the commands."""
        return self._state.shell

    @property
    def keeps(self) -> frozenset[str]:
        """What lasts from one command to the next."""
        return self._state.keeps

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill the command that runs and erase the state; done when it returns, also when it is cancelled."""
        if self._state.closed:
            return
        self._state.closed = True
        try:
            if (running := self._running) is not None:
                await running.kill()
        finally:
            await in_thread(lambda: self._state.erase(self._env.sync))

    async def exec(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | AsyncIterable[bytes] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the command, which kills it
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], Awaitable[None] | None] | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end; cancelling the task kills it, and leaves the session as it was before.

        Raises:
            SessionLost, HermesEnvError, OSError: As the sync `exec`.
        """
        async with self._its_turn(timeout) as left:
            process, planned = await self._begin(
                cmd,
                stdin=stdin,
                on_output=on_output,
                live=False,
                cwd=cwd,
                variables=env,
                timeout=left,
                output_limit=output_limit,
                merge_stderr=merge_stderr,
            )
            result = await process.wait()
        if check and not result.ok:
            raise CommandFailed(f"exit code {result.exit_code}: {planned.command.describe()}", result)
        return result

    async def start(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | AsyncIterable[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - see exec
        on_output: Callable[[Stream, bytes], Awaitable[None] | None] | None = None,
        **settings: Any,
    ) -> Process:
        """Start a command when those before it have ended. Arguments are those of the sync `start`."""
        settings.setdefault("output_limit", OUTPUT_LIMIT)
        left = await self._take_turn(timeout)
        try:
            process, _ = await self._begin(
                cmd,
                stdin=stdin,
                on_output=on_output,
                live=True,
                release=self._end_turn,
                variables=env,
                timeout=left,
                **settings,
            )
        except BaseException:
            self._end_turn()
            raise
        return process

    async def pwd(self) -> str:
        """The directory where the next command starts."""
        async with self._its_turn(None) as left:
            process, _ = await self._begin("\\pwd", live=False, peek=True, timeout=left, output_limit=1 << 16)
            result = await process.wait()
        return result.text.removesuffix("\n")

    # -- turns ----------------------------------------------------------------------------------------------------

    async def _begin(
        self,
        cmd: str | Sequence[str],
        *,
        live: bool,
        stdin: object = None,
        on_output: Callable[..., object] | None = None,
        release: Callable[[], None] | None = None,
        **settings: Any,
    ) -> tuple[Process, Planned]:
        env, state = self._env, self._state
        if on_output is not None:
            settings["on_output"] = env.in_loop(on_output)
        planned = state.plan(env.sync, cmd, stdin=env.blocking(stdin), **settings)
        if planned.store is not None:
            stored = await env.run(planned.store, live=False)
            require_stored(await stored.wait())

        def after(done: SyncProcess) -> None:
            if done._ended_by_itself:  # noqa: SLF001 - one framework
                state.ended(planned)

        process = await env.run(planned.command, live=live, after=after, release=release)
        self._running = process
        return process, planned

    async def _take_turn(self, timeout: float | None) -> float | None:  # noqa: ASYNC109 - becomes a deadline
        limit = _validate.check_timeout("timeout", timeout)
        limit = self._env.sync.timeout if limit is None else limit
        start = time.monotonic()
        try:
            await asyncio.wait_for(self._turn.acquire(), limit)
        except TimeoutError:
            problem = "an earlier command of the session took all the time; nothing ran"
            raise CommandTimeout(problem, nothing_ran(start)) from None
        return None if limit is None else max(0.0, limit - (time.monotonic() - start))

    def _end_turn(self) -> None:
        self._running = None
        self._turn.release()

    @asynccontextmanager
    async def _its_turn(self, timeout: float | None) -> AsyncIterator[float | None]:  # noqa: ASYNC109 - see above
        left = await self._take_turn(timeout)
        try:
            yield left
        finally:
            self._end_turn()


class OpeningSession:
    """What `Environment.session` returns: awaitable, and an async context manager."""

    def __init__(self, env: Environment, user: str | None, shell: str | None, settings: dict[str, Any]) -> None:
        self._env, self._settings = env, settings
        self._state = SessionState(user=user, shell=shell)
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def _open(self) -> Session:
        env, state = self._env, self._state
        command = state.opening(env.sync, **self._settings)
        env.sync._sessions.add(state)  # noqa: SLF001 - one framework
        try:
            process = await env.run(command, live=False)
            state.opened(await process.wait())
        except BaseException:
            await in_thread(lambda: state.erase(env.sync))
            raise
        return Session(env, state)

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()
