"""The live handle to an execution environment: what its users call."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _validate
from ._command import OUTPUT_LIMIT, Carriage, Command, prepare
from ._errors import CommandFailed, EnvironmentGone, Unsupported
from ._hooks import BackendHooks
from ._killer import kill_from_inside
from ._life import Life
from ._pipe import PipeDispatcher
from ._process import Process
from ._request import check_command

if TYPE_CHECKING:
    from datetime import datetime

    from ._dispatcher import Dispatcher
    from ._kill_script import KillReport
    from ._launch import Channel, StdinLike, Stream
    from ._probe import Probe
    from ._result import ExecResult
    from ._session import Session
    from ._session_state import SessionState
    from .files import Files

logger = logging.getLogger("hermes_env")


class BaseEnvironment(BackendHooks):
    """A place where commands run and files live.

    A backend fills in `_open`, `_close` and `_launch` (or `CommandEnvironment._argv`), and declares `stdin_mode` and
    `capabilities`. Everything public is derived from those and final.
    """

    def __init__(
        self,
        options: Any = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take the settings of every command; `open_environment` calls this and then `open`.

        Raises:
            InvalidArgument: A value that cannot be used.
        """
        self.options = options
        self.cwd = None if cwd is None else _validate.check_path("cwd", cwd)
        self.env = _validate.check_env(env)
        self.timeout = _validate.check_timeout("timeout", timeout)
        self._life = Life()
        self.backend_name = f"{type(self).__module__}:{type(self).__qualname__}"
        self._files: Files | None = None
        self._sessions: set[SessionState] = set()

    # -- life -----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start the environment; `open_environment` has done so already.

        Raises:
            BackendUnavailable: It cannot be made.
            EnvironmentGone: It was closed.
        """
        return self._begin(self._open)

    def join(self, ident: str) -> Self:
        """Join an environment that another client made; `attach` has done so already.

        Raises:
            Unsupported: The backend does not declare `reattach`.
            EnvironmentGone, BackendUnavailable: It is gone or cannot be reached.
        """
        self._life.joined = True
        return self._begin(lambda: self._attach(ident))

    def _begin(self, begin: Callable[[], None]) -> Self:
        if self._life.begin(self._before_open, begin, self._set_up, undo=self._after_close):
            logger.debug("opened %s", type(self).__name__)
        return self

    def _set_up(self) -> None:
        try:
            self._after_open()
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        """Undo what `open` made; what `attach` joined is only let go."""
        if self._life.joined:
            self._let_go()
        else:
            self._close()

    def close(self) -> None:
        """Kill what this client still runs, then undo what `open` made; what `attach` joined is only let go.

        Idempotent; blocks until it is done.
        """
        self._end_sessions()
        self._end(self._undo)

    def detach(self) -> str:
        """Leave the environment running for others and return its `ref`; commands of this client are killed.

        Raises:
            Unsupported: The backend does not declare `reattach`.
            EnvironmentGone: It was closed already.
        """
        ref = self.ref
        self._end_sessions()
        self._end(self._let_go)
        return ref

    def _end_sessions(self) -> None:
        for state in list(self._sessions) if self._life.usable else ():
            state.erase(self)

    def _end(self, end: Callable[[], None]) -> None:
        if self._life.end(self._before_close, end, after=self._after_close):
            logger.debug("closed %s", type(self).__name__)

    @property
    def ref(self) -> str:
        """Text that `attach` takes, in this or another process.

        Raises:
            Unsupported: The backend does not declare `reattach`.
            EnvironmentGone: It was closed.
        """
        self._require("reattach", self.capabilities.reattach, "be attached to")
        if not self._life.usable:
            raise EnvironmentGone("this environment is not open")
        return f"{self.backend_name}://{self._ident()}"

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        life = getattr(self, "_life", None)
        if life is not None and life.usable:
            warnings.warn(f"{type(self).__name__} was not closed", ResourceWarning, source=self, stacklevel=1)

    def alive(self) -> bool:
        """Whether the environment is open and can take a command."""
        return self._life.usable and self._alive()

    @property
    def expires_at(self) -> datetime | None:
        """When the provider ends the environment by itself; None when it does not."""
        return self._expires_at()

    def probes(self, patience: float = 60.0) -> Sequence[Probe]:
        """Questions about the provider that only its live service answers; `hermes-env probe` asks them.

        Args:
            patience: Seconds that one of them may take.

        Raises:
            EnvironmentGone: It is not open.
        """
        self._life.require_usable()
        return self._probes(patience)

    @property
    def files(self) -> Files:
        """Read, write and list files in the environment."""
        if self._files is None:
            self._files = self._make_files()
        return self._files

    def _make_files(self) -> Files:
        from .files import Files

        return Files(self)

    # -- commands -------------------------------------------------------------------------------------------------

    def exec(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], None] | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end.

        Args:
            cmd: str is a POSIX sh script; a sequence is a literal argv.
            stdin: Bytes, a binary file or an iterable of bytes. None is end-of-file at once.
            cwd: Working directory; a relative one starts at the environment's. `~` and `$` are not expanded.
            env: Variables on top of the environment's.
            user: User to run as.
            timeout: Seconds from now to the end, staging included; None is the environment's, which may be no limit.
            output_limit: Bytes kept of each stream; over it, the first and the last half are kept.
            merge_stderr: Both streams as stdout, in the order in which the command wrote.
            on_output: Called with ``("stdout" | "stderr", bytes)`` as output arrives. If it raises, the command is
                killed and the error raised here.
            check: Raise `CommandFailed` when the exit code is not 0.

        Raises:
            InvalidArgument: An argument cannot be carried; nothing ran.
            FileNotFoundError, NotADirectoryError, PermissionError: `cwd` cannot be entered; nothing ran.
            Unsupported, PayloadTooLarge, StagingError, EnvironmentGone, BackendUnavailable: Nothing ran.
            CommandTimeout, CommandCancelled, OutcomeUnknown: How it ended; ``.result`` has the output so far.
            CommandFailed: With `check`, the exit code is not 0.
        """
        command = self._command(
            cmd,
            stdin=stdin,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
            output_limit=output_limit,
            merge_stderr=merge_stderr,
            on_output=on_output,
        )
        result = self._complete(command)
        if check and not result.ok:
            raise CommandFailed(f"exit code {result.exit_code}: {command.describe()}", result)
        return result

    def start(
        self,
        cmd: str | Sequence[str],
        *,
        stdin: StdinLike | None = None,
        live_stdin: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        merge_stderr: bool = False,
        on_output: Callable[[Stream, bytes], None] | None = None,
    ) -> Process:
        """Start a command and return at once, before anything is staged. Arguments are those of `exec`.

        Args:
            live_stdin: `Process.write` and `Process.close_stdin` feed the command while it runs.

        Raises:
            InvalidArgument, Unsupported, PayloadTooLarge, EnvironmentGone: Nothing ran.
        """
        command = self._command(
            cmd,
            stdin=stdin,
            live_stdin=live_stdin,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
            output_limit=output_limit,
            merge_stderr=merge_stderr,
            on_output=on_output,
        )
        process = self._new_process(command)
        process.run_in_thread(live=True, ended=self._life.forget)
        return process

    def session(
        self,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        shell: str | None = None,
    ) -> Session:
        """Open a session: its commands find directory, variables, functions and aliases as the last one left them.

        Args:
            cwd: Directory to begin in; a relative one starts at the environment's.
            env: Variables to begin with, on top of the environment's.
            user: User whose session it is.
            shell: Program that runs the commands, by name or path; zsh runs in its sh mode. None is bash where there is
                one, because it can print its functions, else ``/bin/sh``.

        Raises:
            InvalidArgument, FileNotFoundError, NotADirectoryError, PermissionError: As `exec`.
            Unsupported: There is no such shell, or no such power.
            StagingError: No directory inside takes private files.
        """
        from ._session import open_session

        return open_session(self, cwd=cwd, variables=env, user=user, shell=shell)

    def _command(self, cmd: object, *, stdin: StdinLike | None = None, **settings: Any) -> Command:
        """Check everything that can be checked before anything runs."""
        command = check_command(cmd, stdin=stdin, base=self, **settings)
        self._require("users", command.user is None or self.capabilities.users, "run as another user")
        live = not command.live_stdin or self.capabilities.live_stdin
        self._require("live_stdin", live, "feed stdin while a command runs")
        return command

    def _require(self, power: str, present: bool, what: str) -> None:
        if not present:
            raise Unsupported(f"{type(self).__name__} cannot {what}: it does not declare `{power}`")

    def _dispatcher(self, command: Command) -> Dispatcher:
        """How a command travels in this environment's stdin mode."""
        carriage = Carriage(self.carries_env, self.carries_cwd, self.carries_bytes)
        return PipeDispatcher(self, command, prepare(command, carriage, self.capabilities))

    def _new_process(self, command: Command) -> Process:
        process = Process(command, self._dispatcher(command))
        self._life.admit(process)
        return process

    def _complete(self, command: Command) -> ExecResult:
        """Run to the end: on this thread where the channel can wait with a bound, else on one that can be left."""
        return self._run_to_end(self._new_process(command))

    def _run_to_end(self, process: Process) -> ExecResult:
        if self._runs_inline:
            try:
                process.run_here()
            finally:
                self._life.forget(process)
            return process.wait()
        process.run_in_thread(live=False, ended=self._life.forget)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.kill()
            raise

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        """End one command's tree from a second command; None when it has ended already."""
        user = getattr(channel, "user", None)
        report = kill_from_inside(self._dispatcher, command_id, grace, user=user)
        logger.debug("kill of %s: %s", command_id, report)
        return report

    def run_script(
        self,
        script: str,
        args: Sequence[str] = (),
        *,
        stdin: StdinLike | None = None,
        timeout: float | None = None,
        output_limit: int = OUTPUT_LIMIT,
        on_output: Callable[[Stream, bytes], None] | None = None,
    ) -> ExecResult:
        """Run one of the framework's own scripts: in the environment's directory, without the caller's variables.

        Args:
            script: POSIX sh text.
            args: Its positional parameters; any bytes but NUL, as surrogate escapes.
            stdin: See `exec`.
            timeout: Seconds; None is the environment's default.
            output_limit: Bytes kept of each stream; 0 when `on_output` takes them.
            on_output: See `exec`.

        Raises:
            HermesEnvError: As `exec`.
        """
        argv = ["/bin/sh", "-c", script, "sh", *args]
        command = self._command(argv, stdin=stdin, timeout=timeout, output_limit=output_limit, on_output=on_output)
        return self._complete(replace(command, env={}))
