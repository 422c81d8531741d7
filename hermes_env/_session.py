"""Sessions: commands that find directory, variables, functions and aliases as the one before them left them."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _session_script, _validate
from ._codec import decode_lossless, encode_lossless
from ._errors import (
    CommandFailed,
    CommandTimeout,
    EnvironmentGone,
    HermesEnvError,
    SessionLost,
    StagingError,
    Unsupported,
)
from ._launch import COMMAND_ID_VARIABLE
from ._pipe import cwd_error
from ._result import NO_EXIT_CODE, ExecResult

if TYPE_CHECKING:
    from ._base import BaseEnvironment
    from ._command import Command
    from ._launch import StdinLike, Stream
    from ._process import Process

logger = logging.getLogger("hermes_env")

LONGEST_TEXT = 90_000
"""Bytes of a script that is carried as an argument, beside our own 6 KB; Linux caps one argument at 131,072."""
_ERASE = 10.0
"""Seconds for the directory of a session to be removed when it is closed."""
_CWD = ("missing", "notdir", "denied")


@dataclass(frozen=True, slots=True)
class Planned:
    """One command of a session, ready to run."""

    command: Command
    number: int | None
    """Of the state that it will save; None when it saves none."""
    store: Command | None = None
    """To be run before it: carries a text that is too long for an argument."""


class SessionState:
    """Where the state of a session is, and which command was the last to change it. Runs nothing by itself.

    A command saves under a number of its own. It counts only when the client has seen that command end by itself: one
    that is killed, or whose outcome is not known, leaves the session as it was before it.
    """

    def __init__(self, *, user: str | None, shell: str | None) -> None:
        self.user = user
        self.name = f"{_session_script.DIRECTORY_PREFIX}{secrets.token_hex(16)}"
        self.directory = ""
        self.shell = shell or ""
        self.keeps: frozenset[str] = frozenset()
        self.closed = False
        self._variables: Mapping[str, str] | None = None
        self._numbers = itertools.count(1)
        self._last = "0"

    # -- its beginning --------------------------------------------------------------------------------------------

    def opening(self, env: BaseEnvironment, cwd: str | None, variables: Mapping[str, str] | None) -> Command:
        """What makes the directory and saves what there is at the beginning."""
        nonce, self._variables = secrets.token_hex(16), variables
        argv = _session_script.open_argv(nonce, self.name, self.shell or None, COMMAND_ID_VARIABLE)
        command = env._command(argv, cwd=cwd, env=variables, user=self.user, output_limit=1 << 16)  # noqa: SLF001
        return replace(command, nonce=nonce, refusal=self._refusal)

    def opened(self, result: ExecResult) -> None:
        """Take what `opening` said.

        Raises:
            StagingError: It did not do what it should.
        """
        shell, _, rest = result.text.partition("\n")
        directory, *kept = rest.splitlines()
        if not result.ok or not directory.endswith(f"/{self.name}"):
            raise StagingError(f"a session could not be opened: exit code {result.exit_code}, {result.stderr_text!r}")
        self.shell, self.directory = shell, directory
        self.keeps = frozenset({"cwd", "variables", *kept})

    # -- its commands ---------------------------------------------------------------------------------------------

    def plan(
        self,
        env: BaseEnvironment,
        cmd: str | Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
        merge_stderr: bool = False,
        peek: bool = False,
        **settings: Any,
    ) -> Planned:
        """Check everything that can be checked before anything runs.

        Args:
            env: Where it will run.
            cmd: See `Session.exec`.
            cwd: See `Session.exec`.
            variables: See `Session.exec`, ``env``.
            merge_stderr: See `Session.exec`.
            peek: Save nothing.
            **settings: Those of `BaseEnvironment.start`.

        Raises:
            InvalidArgument, Unsupported: Nothing ran.
            EnvironmentGone: The session is closed.
        """
        program = _validate.check_command(cmd)
        start = "" if cwd is None else _validate.check_path("cwd", cwd)
        checked = _validate.check_env(variables)
        if self.closed:
            raise EnvironmentGone("this session was closed: open a new one")
        number, nonce, store = next(self._numbers), secrets.token_hex(16), None
        mode, tail = ("peek" if peek else "text"), (program,) if isinstance(program, str) else program
        if isinstance(program, tuple):
            mode = "argv"
        elif len(encode_lossless(program)) > LONGEST_TEXT:
            mode, tail = "file", ()
            store = self._storing(env, f"{self.directory}/{number}.cmd", encode_lossless(program))
        args = (nonce, self.directory, self._last, str(number), start, mode, *tail)
        script = _session_script.boot(checked, merge_stderr=merge_stderr, mark=COMMAND_ID_VARIABLE)
        argv = _session_script.command_argv(self.shell, script, args)
        command = env._command(argv, user=self.user, **settings)  # noqa: SLF001 - one framework
        # Directory and variables are the session's; those of the environment were there at its beginning.
        command = replace(command, cwd=None, env=checked, nonce=nonce, refusal=self._refusal)
        return Planned(command, number if mode in ("text", "file") else None, store)

    def _storing(self, env: BaseEnvironment, path: str, text: bytes) -> Command:
        argv = ["/bin/sh", "-c", _session_script.STORE, "sh", path]
        command = env._command(argv, user=self.user, stdin=text, output_limit=1024)  # noqa: SLF001
        return replace(command, cwd=None, env={})

    def ended(self, planned: Planned) -> None:
        """The command has ended by itself: what it saved is the session's state, if it saved anything."""
        if planned.number is not None:
            self._last = str(planned.number)

    def _refusal(self, word: str, detail: bytes) -> Exception:
        """What it means that nothing ran."""
        about = decode_lossless(detail)
        if word in _CWD:
            return cwd_error(word, about, "the directory of the session", "; give cwd= to start elsewhere")
        if word == "unsaved":
            self._last += "!"
            problem = "what its last command changed could not be saved (is the disk of its directory full?)"
            return SessionLost(f"the session is as it was before: {problem}; nothing ran")
        if word == "lost":
            return SessionLost("the state of this session was removed inside the environment: open a new session")
        if word == "noshell":
            return Unsupported(f"there is no shell {about!r} in the environment: give another, or none")
        return StagingError("no directory inside takes private files: tried TMPDIR, /tmp, /var/tmp, /dev/shm, HOME")

    # -- its end --------------------------------------------------------------------------------------------------

    def erase(self, env: BaseEnvironment) -> None:
        """Remove the directory; an environment that is gone has no more of it."""
        self.closed = True
        env._sessions.discard(self)  # noqa: SLF001 - one framework
        with suppress(HermesEnvError, OSError):
            argv = ["/bin/sh", "-c", _session_script.REMOVE, "sh", self.directory, self.name]
            command = env._command(  # noqa: SLF001
                argv, env=self._variables, user=self.user, timeout=_ERASE, output_limit=1024
            )
            if env._complete(replace(command, cwd=None)).ok:  # noqa: SLF001
                return
        logger.debug("the directory of a session could not be removed")


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
        output_limit: int = 16 << 20,
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
        output_limit: int = 16 << 20,
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


def require_stored(result: ExecResult) -> None:
    """Demand that the text of a command has arrived.

    Raises:
        StagingError: It has not; nothing ran.
    """
    if not result.ok:
        raise StagingError(f"the text of a command could not be stored: {result.stderr_text.strip() or 'no reason'}")


def nothing_ran(start: float) -> ExecResult:
    """The result of a command whose turn never came."""
    return ExecResult(NO_EXIT_CODE, b"", b"", 0, 0, time.monotonic() - start, "new")


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
