"""Sessions: commands that find directory, variables, functions and aliases as the one before them left them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _validate
from ._command import OUTPUT_LIMIT
from ._errors import CommandFailed, CommandTimeout
from ._session_state import Planned, SessionState, nothing_ran, require_stored

if TYPE_CHECKING:
    from ._base import BaseEnvironment
    from ._launch import StdinLike, Stream
    from ._process import Process
    from ._result import ExecResult


class Session:
    """Commands that find the working directory, exported variables, functions and aliases of the one before.

    Each runs in a shell of its own, over any backend: there is no terminal, and no prompt is looked for. What a command
    changed is kept when its shell ends by itself: at the end of the text, by ``exit`` or ``set -e``. When the command
    is killed, times out, replaces its shell (``exec prog``), or its outcome is not known, the session is as it was
    before. Commands of one session run one after the other, whatever thread asks; sessions do not know of each other.

    Not kept: variables that are not exported, options of the shell, umask, traps, open files.
    """

    def __init__(self, env: BaseEnvironment, state: SessionState) -> None:
        self._env = env
        self._state = state
        self._turn = threading.Lock()
        self._running: Process | None = None

    @property
    def shell(self) -> str:
        """The shell that runs the commands, as it was found."""
        return self._state.shell

    @property
    def keeps(self) -> frozenset[str]:
        """What lasts: ``cwd`` and ``variables`` always; ``functions`` and ``aliases`` when the shell can print them."""
        return self._state.keeps

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the command that runs and erase the state. Idempotent; what commands left in the background stays."""
        if self._state.closed:
            return
        self._state.closed = True
        if (running := self._running) is not None:
            running.kill()
        with self._turn:
            self._state.erase(self._env)

    def exec(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], None] | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end. What is not explained here is as in `BaseEnvironment.exec`.

        Args:
            cmd: str is a script, which may change the session; a sequence is a literal argv, which cannot.
            stdin: See there.
            cwd: Directory to start in; a relative one starts at the session's. The session stays where the command
                ends.
            env: Variables for this command alone: afterwards these names have the session's values again.
            timeout: Seconds from the call to the end, the wait for an earlier command included.
            output_limit: See there.
            merge_stderr: See there.
            on_output: See there.
            check: See there.

        Raises:
            FileNotFoundError, NotADirectoryError, PermissionError: The directory cannot be entered, for example because
                it was deleted meanwhile; nothing ran. Give `cwd` to go on elsewhere.
            SessionLost: The state is gone, or could not be saved after the last command; nothing ran.
            HermesEnvError: As there.
        """
        with self._its_turn(timeout) as left:
            settings: dict[str, Any] = {
                "stdin": stdin,
                "timeout": left,
                "output_limit": output_limit,
                "on_output": on_output,
            }
            planned = self._state.plan(self._env, cmd, cwd=cwd, variables=env, merge_stderr=merge_stderr, **settings)
            result = self._complete(planned)
        if check and not result.ok:
            raise CommandFailed(f"exit code {result.exit_code}: {planned.command.describe()}", result)
        return result

    def start(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | None = None,
        live_stdin: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], None] | None = None,
    ) -> Process:
        """Start a command when those before it have ended. Arguments are those of `exec` and `BaseEnvironment.start`.

        Raises:
            InvalidArgument, Unsupported, EnvironmentGone, StagingError: Nothing ran.
            CommandTimeout: An earlier command took all the time.
        """
        left = self._take_turn(timeout)
        try:
            settings: dict[str, Any] = {
                "stdin": stdin,
                "timeout": left,
                "output_limit": output_limit,
                "on_output": on_output,
            }
            planned = self._state.plan(
                self._env,
                cmd,
                cwd=cwd,
                variables=env,
                merge_stderr=merge_stderr,
                live_stdin=live_stdin,
                **settings,
            )
            self._store(planned)
            process = self._env._new_process(planned.command)  # noqa: SLF001 - one framework
        except BaseException:
            self._end_turn()
            raise
        self._running = process
        process.run_in_thread(live=True, ended=lambda done: self._on_end(planned, done))
        return process

    def pwd(self) -> str:
        """The directory where the next command starts, absolute, as the shell names it.

        Raises:
            FileNotFoundError, SessionLost, HermesEnvError: As `exec`.
        """
        with self._its_turn(None) as left:
            result = self._complete(self._state.plan(self._env, "\\pwd", peek=True, timeout=left, output_limit=1 << 16))
        return result.text.removesuffix("\n")

    # -- turns ----------------------------------------------------------------------------------------------------

    def _take_turn(self, timeout: float | None) -> float | None:
        """Wait until the commands before have ended; the seconds that are left then."""
        limit = _validate.check_timeout("timeout", timeout)
        limit = self._env.timeout if limit is None else limit
        start = time.monotonic()
        if not self._turn.acquire(timeout=-1 if limit is None else min(limit, threading.TIMEOUT_MAX)):
            raise CommandTimeout("an earlier command of the session took all the time; nothing ran", nothing_ran(start))
        return None if limit is None else max(0.0, limit - (time.monotonic() - start))

    def _end_turn(self) -> None:
        self._running = None
        self._turn.release()

    @contextmanager
    def _its_turn(self, timeout: float | None) -> Iterator[float | None]:
        left = self._take_turn(timeout)
        try:
            yield left
        finally:
            self._end_turn()

    def _complete(self, planned: Planned) -> ExecResult:
        self._store(planned)
        process = self._env._new_process(planned.command)  # noqa: SLF001 - one framework
        self._running = process
        result = self._env._run_to_end(process)  # noqa: SLF001
        self._state.ended(planned)
        return result

    def _store(self, planned: Planned) -> None:
        if planned.store is not None:
            require_stored(self._env._complete(planned.store))  # noqa: SLF001 - one framework

    def _on_end(self, planned: Planned, process: Process) -> None:
        self._env._life.forget(process)  # noqa: SLF001 - one framework
        if process._ended_by_itself:  # noqa: SLF001 - one framework
            self._state.ended(planned)
        self._end_turn()


def open_session(
    env: BaseEnvironment,
    *,
    cwd: str | None,
    variables: Mapping[str, str] | None,
    user: str | None,
    shell: str | None,
) -> Session:
    """Open a session; see `BaseEnvironment.session`."""
    state = SessionState(user=user, shell=None if shell is None else _validate.check_path("shell", shell))
    command = state.opening(env, cwd, variables)
    env._sessions.add(state)  # noqa: SLF001 - one framework
    try:
        state.opened(env._complete(command))  # noqa: SLF001
    except BaseException:
        state.erase(env)
        raise
    return Session(env, state)
