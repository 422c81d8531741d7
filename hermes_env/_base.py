"""The live handle to an execution environment, and the hooks that a backend fills in."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from . import _kill_script, _validate
from ._capabilities import Capabilities, StdinMode
from ._command import Carriage, Command, prepare
from ._errors import CommandFailed, EnvironmentGone, InvalidArgument, Unsupported
from ._pipe import PipeDispatcher
from ._process import Process
from ._stdin import source_of

if TYPE_CHECKING:
    from datetime import datetime

    from ._launch import Channel, Launch, StdinLike, Stream
    from ._process import Dispatcher
    from ._result import ExecResult
    from .files import Files

logger = logging.getLogger("hermes_env")

OUTPUT_LIMIT = 16 << 20
"""Default bytes kept of each output stream."""


class BaseEnvironment:
    """A place where commands run and files live.

    A backend fills in `_open`, `_close` and `_launch` (or derives from `CommandEnvironment`, and fills in `_argv`),
    and declares `stdin_mode` and `capabilities`. Everything public is derived from those and final.
    """

    api_version: ClassVar[int] = 1
    """Version of the contract between framework and backend."""
    stdin_mode: ClassVar[StdinMode] = StdinMode.PIPE
    capabilities: Capabilities = Capabilities()
    Options: ClassVar[type[Any] | None] = None
    """A `BackendOptions` model; None when the backend takes no options."""
    install: ClassVar[str] = ""
    """Command that installs what the backend needs."""

    carries_env: ClassVar[bool] = False
    """The backend puts `Launch.env` into the process environment, by a way that is not an argv."""
    carries_cwd: ClassVar[bool] = False
    """The backend starts the command in `Launch.cwd`, and raises the builtin `OSError` when it cannot."""
    carries_bytes: ClassVar[bool] = False
    """Arguments of any bytes but NUL arrive unchanged; otherwise only ASCII is put into them."""
    _runs_inline: ClassVar[bool] = False

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
        self._lock = threading.Lock()
        self._running: set[Process] = set()
        self._opened = False
        self._closed = False
        self._files: Files | None = None

    # -- hooks ----------------------------------------------------------------------------------------------------

    @classmethod
    def _unavailable(cls) -> str | None:
        """Why this backend cannot be used here, without importing its SDK; None when nothing is known against it."""
        return None

    def _open(self) -> None:
        """Make or join what commands run in.

        Raises:
            BackendUnavailable: It cannot be made; nothing is left behind.
        """

    def _close(self) -> None:
        """Undo what `_open` made. Called once, when no command runs any more."""

    def _launch(self, launch: Launch) -> Channel:
        """Start a command.

        Raises:
            BackendUnavailable, EnvironmentGone: It was not started.
            ConnectionError: It is not known whether it was started.
        """
        raise NotImplementedError

    def _kill(self, command_id: str, channel: Channel, grace: float) -> _kill_script.KillReport | None:
        """End one command's tree from a second command; None when it has ended already."""
        tenths = str(min(int(grace * 10), 36_000))
        args = (_kill_script.KILL_SCRIPT, command_id, tenths)
        result = self._run_killer(args, 5.0 + grace, user=getattr(channel, "user", None))
        report = _kill_script.parse_kill_report(result.stdout)
        logger.debug("kill of %s: %s", command_id, report)
        return report

    def _alive(self) -> bool:
        """Whether the environment can take a command; asks the provider where that costs little."""
        return True

    def _expires_at(self) -> datetime | None:
        """When the provider ends the environment by itself; None when it does not."""
        return None

    def _before_open(self) -> None:
        """What the framework itself keeps while the environment is open."""

    def _after_close(self) -> None:
        """Let go of what `_before_open` keeps."""

    # -- life -----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start the environment; `open_environment` has done so already.

        Raises:
            BackendUnavailable: It cannot be made.
            EnvironmentGone: It was closed.
        """
        with self._lock:
            if self._closed:
                raise EnvironmentGone("this environment was closed: open a new one")
            if self._opened:
                return self
            self._opened = True
        self._before_open()
        try:
            self._open()
        except BaseException:
            self._closed = True
            self._after_close()
            raise
        logger.debug("opened %s", type(self).__name__)
        return self

    def close(self) -> None:
        """Kill what still runs and undo what `open` made. Idempotent, blocks until it is done."""
        with self._lock:
            if self._closed or not self._opened:
                self._closed = True
                return
            self._closed = True
            running = list(self._running)
        for process in running:
            process.kill()
        try:
            self._close()
        finally:
            self._after_close()
        logger.debug("closed %s", type(self).__name__)

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
        if getattr(self, "_opened", False) and not self._closed:
            warnings.warn(f"{type(self).__name__} was not closed", ResourceWarning, source=self, stacklevel=1)

    def alive(self) -> bool:
        """Whether the environment is open and can take a command."""
        return self._opened and not self._closed and self._alive()

    @property
    def expires_at(self) -> datetime | None:
        """When the provider ends the environment by itself; None when it does not."""
        return self._expires_at()

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
        process.run_in_thread(live=True, ended=self._forget)
        return process

    def _command(
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
        **rest: Any,
    ) -> Command:
        """Check everything that can be checked before anything runs."""
        program = _validate.check_command(cmd)
        variables = {**self.env, **_validate.check_env(env)}
        if user is not None:
            _validate.check_text("user", user)
            self._require("users", self.capabilities.users, "run as another user")
        if live_stdin:
            self._require("live_stdin", self.capabilities.live_stdin, "feed stdin while a command runs")
            if stdin is not None:
                raise InvalidArgument("stdin", "cannot be given together with live_stdin=True")
        memory = memoryview(stdin).cast("B") if isinstance(stdin, bytes | bytearray | memoryview) else None
        limit = _validate.check_timeout("timeout", timeout)
        return Command(
            program,
            stdin=source_of(stdin),
            memory=memory or None,
            live_stdin=live_stdin,
            cwd=self._resolve_cwd(cwd),
            env=variables,
            user=user,
            timeout=self.timeout if limit is None else limit,
            output_limit=_validate.check_size("output_limit", output_limit),
            **rest,
        )

    def _resolve_cwd(self, cwd: str | None) -> str | None:
        """The directory of a command; a relative one starts at the environment's."""
        if cwd is None:
            return self.cwd
        _validate.check_path("cwd", cwd)
        if self.cwd is None or cwd.startswith("/"):
            return cwd
        return f"{self.cwd.rstrip('/')}/{cwd}"

    def _require(self, power: str, present: bool, what: str) -> None:
        if not present:
            raise Unsupported(f"{type(self).__name__} cannot {what}: it does not declare `{power}`")

    def _dispatcher(self, command: Command) -> Dispatcher:
        """How a command travels in this environment's stdin mode."""
        carriage = Carriage(self.carries_env, self.carries_cwd, self.carries_bytes)
        return PipeDispatcher(self, command, prepare(command, carriage, self.capabilities))

    def _new_process(self, command: Command) -> Process:
        process = Process(command, self._dispatcher(command))
        with self._lock:
            if self._closed or not self._opened:
                raise EnvironmentGone("this environment is not open: use `with`, or call open()")
            self._running.add(process)
        return process

    def _forget(self, process: Process) -> None:
        with self._lock:
            self._running.discard(process)

    def _complete(self, command: Command) -> ExecResult:
        """Run to the end: on this thread where the channel can wait with a bound, else on one that can be left."""
        process = self._new_process(command)
        if self._runs_inline:
            try:
                process.run_here()
            finally:
                self._forget(process)
            return process.wait()
        process.run_in_thread(live=False, ended=self._forget)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.kill()
            raise

    def _run_killer(self, args: Sequence[str], timeout: float, *, user: str | None = None) -> ExecResult:
        """Run the kill script; it works while the environment is closing, and nothing kills it in turn.

        It runs as the command's own user: even root may read another user's environment only with CAP_SYS_PTRACE.
        """
        script, *rest = args
        command = Command(
            ("/bin/sh", "-c", script, "sh", *rest),
            user=user,
            timeout=timeout,
            output_limit=1 << 16,
            killable=False,
        )
        process = Process(command, self._dispatcher(command))
        process.run_in_thread(live=False, ended=lambda _: None)
        return process.wait(timeout + 5.0)

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
