"""One edit as a transaction: journal, commit, proof, and everything put back when one of them fails.

Round trips on an environment whose files are carried by scripts: the journal, the commit, and one that
proves every file and removes the journal. An edit that is a single rename needs no journal, and its commit
has proven the file that got the name: it is one round trip. A file that turns out not to be replaceable
gets a journal with its new bytes before it is written in place.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from hermes_env._errors import (
    FileChanged,
    HermesEnvError,
    InvalidArgument,
    RollbackFailed,
    StagingError,
    Unsupported,
    VerificationError,
)
from hermes_env.files import Change, Move, NotReplaceable, Remove, WriteResult
from hermes_env.tools._problem import ErrorCode, Problem
from hermes_env.tools._settle import Settled, Settler

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.tools._journal import Journal
    from hermes_env.tools._steps import Steps

Ending = Literal["applied", "refused", "rolled_back", "rollback_failed"]

_NOTHING_DONE: Final = (OSError, FileChanged, VerificationError, Unsupported, InvalidArgument, StagingError)
"""What a commit raises when it changed nothing, or has put everything back itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a transaction ended."""

    status: Ending
    problems: tuple[Problem, ...] = ()
    left: tuple[str, ...] = ()
    """The caller's paths that are neither old nor known to be new."""
    warnings: tuple[str, ...] = ()


class Transaction:
    """The effects of one edit."""

    def __init__(self, env: BaseEnvironment, steps: Steps, journal: Journal, path: str, *, keep: str | None) -> None:
        self._env, self._files = env, env.files
        self._steps, self._journal, self._path = steps, journal, path
        self._keep = keep
        """Where the journal goes in the end; None removes it."""
        self._journalled = not steps.lone or keep is not None
        self._settler = Settler(env)

    def run(self) -> Ended:
        """Do it all, or leave everything as it was.

        Raises:
            BaseException: An interrupt, after the files were settled.
        """
        for _ in range(len(self._steps.changes)):
            try:
                return self._run()
            except NotReplaceable as error:
                # Nothing was changed. A journal that knows the new bytes comes first.
                self._steps.write_in_place(str(error.filename))
                self._journal = replace(self._journal, files=tuple(self._steps.touched))
                self._journalled = True
        return self._run()

    def _run(self) -> Ended:
        try:
            if self._journalled:
                self._write_journal()
        except (HermesEnvError, OSError) as error:
            self._forget()
            return Ended("refused", (problem_of(error, "the journal cannot be written: "),))
        try:
            results = self._files.commit(self._steps.changes)
        except RollbackFailed as error:
            return self._settle(error)
        except NotReplaceable:
            raise
        except _NOTHING_DONE as error:
            self._forget()
            return _nothing_done(error, self._shown())
        except BaseException as error:
            ended = self._settle(error)
            if not isinstance(error, HermesEnvError):
                raise
            return ended
        if not self._journalled and all(map(_proven, results)):
            return Ended("applied")
        return self._prove()

    def _write_journal(self) -> None:
        data = self._journal.encode()
        self._files.write_bytes(self._path, data, mode=0o600, make_parents=True)

    def _shown(self) -> dict[str, str]:
        return {touched.path: touched.shown for touched in self._steps.touched}

    def _prove(self) -> Ended:
        """Every file must hold what was meant; then the journal has done its work."""
        try:
            self._files.commit([*self._steps.expected, *self._close()])
        except (FileChanged, FileExistsError) as error:
            problem = Problem("verify_failed", f"after the commit: {error}", _shown_path(error, self._shown()))
            return self._roll_back(problem)
        except OSError as error:
            # The files are as meant; only the journal could not be put away.
            return Ended("applied", warnings=(f"the journal stays at {self._path}: {error}",))
        except BaseException as error:
            ended = self._settle(error)
            if not isinstance(error, HermesEnvError):
                raise
            return ended
        return Ended("applied")

    def _close(self) -> list[Change]:
        if not self._journalled:
            return []
        if self._keep is None:
            return [Remove(path=self._path)]
        return [Move(path=self._path, dst=self._keep, overwrite=True)]

    def _forget(self) -> None:
        """Remove a journal of which nothing was done; where that fails `recover` finds nothing to do."""
        if not self._journalled:
            return
        try:
            self._files.remove(self._path)
        except (OSError, HermesEnvError):
            return

    def _roll_back(self, problem: Problem) -> Ended:
        try:
            settled = self._settler.undo(self._journal, force=True)
        except (HermesEnvError, OSError) as error:
            return self._unsettled(error)
        self._put_away(settled)
        return _ended(settled, problem)

    def _settle(self, cause: BaseException) -> Ended:
        """After a failure of which nobody knows what it left: look, and finish or undo."""
        try:
            settled = self._settler.settle(self._journal)
        except (HermesEnvError, OSError):
            return self._unsettled(cause)
        self._put_away(settled)
        return _ended(settled, problem_of(cause))

    def _put_away(self, settled: Settled) -> None:
        if not settled.left:
            self._forget()

    def _unsettled(self, cause: BaseException) -> Ended:
        text = f"the outcome is not known, since the environment cannot be asked: {cause}; call recover() later"
        left = tuple(touched.shown for touched in self._steps.touched)
        return Ended("rollback_failed", (Problem("rollback_failed", text),), left)


def _proven(result: WriteResult | None) -> bool:
    """The file that has the name now is the one whose bytes were hashed, apart from their writing."""
    return result is not None and result.atomic and result.verified and result.verified_by != "cksum"


def _ended(settled: Settled, problem: Problem) -> Ended:
    if settled.done == "applied":
        return Ended("applied", warnings=(f"the link failed on the way, all files are as meant: {problem.message}",))
    if settled.left:
        names = ", ".join(settled.left)
        failed = Problem("rollback_failed", f"these files could not be put back: {names}")
        return Ended("rollback_failed", (failed, problem), settled.left)
    return Ended("rolled_back", (problem,))


def _nothing_done(error: Exception, shown: dict[str, str]) -> Ended:
    path = _shown_path(error, shown)
    if isinstance(error, FileChanged | FileExistsError):
        text = f"changed since it was read: {error}"
        return Ended("refused", (Problem("stale", text, path),))
    problem = problem_of(error).at(path=path)
    status: Ending = "refused" if isinstance(error, Unsupported | InvalidArgument) else "rolled_back"
    return Ended(status, (problem,))


def _shown_path(error: Exception, shown: dict[str, str]) -> str | None:
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    return shown.get(str(path)) if path is not None else None


def problem_of(error: BaseException, before: str = "") -> Problem:
    """An error of the environment as the problem of an edit."""
    code: ErrorCode = "write_failed"
    if isinstance(error, PermissionError):
        code = "permission_denied"
    elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        code = "path_invalid"
    elif isinstance(error, VerificationError):
        code = "verify_failed"
    elif isinstance(error, FileChanged):
        code = "stale"
    return Problem(code, f"{before}{error or type(error).__name__}")
