"""What a session knows of itself: where its state is, and which of its commands was the last to change it."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import _session_script, _validate
from ._codec import decode_lossless, encode_lossless
from ._errors import EnvironmentGone, HermesEnvError, SessionLost, StagingError, Unsupported
from ._launch import COMMAND_ID_VARIABLE
from ._pipe import cwd_error
from ._result import NO_EXIT_CODE, ExecResult

if TYPE_CHECKING:
    from ._base import BaseEnvironment
    from ._command import Command

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
