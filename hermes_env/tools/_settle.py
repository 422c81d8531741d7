"""What an edit that broke off has left: looked at by digests, then finished, or undone from its journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from hermes_env._errors import FileChanged, HermesEnvError
from hermes_env.files import Change, Expect, Remove, Surveyed, Symlink, Write

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.tools._journal import Journal, Touched

State = Literal["before", "after", "torn", "other"]

_PATIENCE: Final = 10.0
"""Seconds that a commit whose client lost its link is given to end by itself."""
_PAUSE: Final = 0.1


class StillRunning(HermesEnvError):
    """The commit of the edit still runs in the environment; try again later."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an edit."""

    done: Literal["applied", "undone"]
    left: tuple[str, ...] = ()
    """Paths that are neither as they were nor as meant: somebody else wrote there."""


class Settler:
    """Finishes or undoes edits from their journals."""

    def __init__(self, env: BaseEnvironment) -> None:
        self._env, self._files = env, env.files

    def foresee(self, journal: Journal) -> Settled:
        """What `settle` would do now."""
        states = self._states(journal)
        if all(state == "after" for state in states):
            return Settled("applied")
        return Settled("undone", _others(journal, states))

    def settle(self, journal: Journal, *, patience: float = _PATIENCE) -> Settled:
        """Leave the files of an edit all new, if they are, or all old.

        Raises:
            StillRunning: Its commit has not ended.
            HermesEnvError, OSError: The environment cannot do it now; nothing is lost, try again.
        """
        self._await_writers(journal, patience)
        states = self._states(journal)
        if all(state == "after" for state in states):
            self._clean(journal)
            return Settled("applied")
        return self.undo(journal)

    def undo(self, journal: Journal, *, force: bool = False) -> Settled:
        """Put every file back as it was.

        Args:
            journal: What was.
            force: Also files that hold bytes which are neither the old nor the new ones.

        Raises:
            HermesEnvError, OSError: As `settle`.
        """
        states: list[State] = []
        for attempt in (1, 2):
            found = self._survey(journal)
            states = [_state(touched, found[touched.path]) for touched in journal.files]
            mine = [
                touched
                for touched, state in zip(journal.files, states, strict=True)
                if state in ("after", "torn") or (force and state == "other")
            ]
            try:
                self._restore(mine, found)
                break
            except (FileChanged, FileExistsError):
                # Somebody wrote between look and commit.
                if attempt == 2:
                    raise
        for directory in reversed(journal.made):
            self._remove_empty(directory)
        self._clean(journal)
        return Settled("undone", () if force else _others(journal, states))

    def _await_writers(self, journal: Journal, patience: float) -> None:
        deadline = time.monotonic() + patience
        while self._files.sweep(_directories(journal)).busy:
            if time.monotonic() > deadline:
                raise StillRunning(f"the commit of edit {journal.edit_id} still runs in the environment")
            time.sleep(_PAUSE)

    def _survey(self, journal: Journal) -> dict[str, Surveyed]:
        found = dict(self._files.survey([touched.path for touched in journal.files]).files)
        torn = {
            touched.path: max(len(touched.torn), len(touched.old))
            for touched in journal.files
            if touched.torn is not None
        }
        if torn:
            # A file that was being written in place is known by its bytes.
            found.update(self._files.survey(list(torn), most=max(torn.values())).files)
        return found

    def _states(self, journal: Journal) -> list[State]:
        found = self._survey(journal)
        return [_state(touched, found[touched.path]) for touched in journal.files]

    def _restore(self, mine: Sequence[Touched], found: dict[str, Surveyed]) -> None:
        in_the_way = [touched for touched in mine if _link_before(touched) and _is_there(found[touched.path])]
        if in_the_way:
            self._files.commit([_removal(touched, found[touched.path]) for touched in in_the_way])
        changes = [change for touched in mine for change in _back(touched, found[touched.path])]
        if changes:
            self._files.commit(changes)
        proof = [
            Expect(path=touched.path, sha256=touched.before.sha256 if touched.before else None)
            for touched in mine
            if not _link_before(touched)
        ]
        if proof:
            self._files.commit(proof)

    def _remove_empty(self, directory: str) -> None:
        """Remove a directory that the edit made, unless somebody uses it."""
        try:
            self._files.remove(directory)
        except OSError:
            return

    def _clean(self, journal: Journal) -> None:
        """The journal has the old bytes: copies that a killed commit left beside the files are needed no more."""
        self._files.sweep(_directories(journal), backups=True)


def _others(journal: Journal, states: Sequence[State]) -> tuple[str, ...]:
    """Files that somebody else wrote."""
    return tuple(touched.shown for touched, state in zip(journal.files, states, strict=True) if state == "other")


def _is_there(now: Surveyed) -> bool:
    return now.stat is not None or now.link


def _link_before(touched: Touched) -> str | None:
    return None if touched.before is None else touched.before.link


def _removal(touched: Touched, now: Surveyed) -> Remove:
    return Remove(path=touched.path, if_sha256=None if now.link else now.sha256, real=True)


def _back(touched: Touched, now: Surveyed) -> list[Change]:
    """What makes a place as it was, and what is there now."""
    link = _link_before(touched)
    if link is not None:
        return [Symlink(path=touched.path, target=link, real=True)]
    there = _is_there(now)
    if touched.before is None:
        return [_removal(touched, now)] if there else []
    return [
        Write(
            path=touched.path,
            data=touched.old,
            sha256=touched.before.sha256,
            mode=touched.before.mode,
            owner=touched.before.owner,
            make_parents=True,
            if_sha256=now.sha256 if there else None,
            if_absent=not there,
            real=True,
        )
    ]


def _directories(journal: Journal) -> list[str]:
    return list(dict.fromkeys(touched.path.rpartition("/")[0] or "/" for touched in journal.files))


def _state(touched: Touched, now: Surveyed) -> State:
    if touched.is_link:
        return _link_state(touched, now)
    if _same(touched.after_sha256, now):
        # Where old and new bytes are equal only the mode can differ, and a restore sets both.
        return "after"
    if _same(None if touched.before is None else touched.before.sha256, now):
        return "before"
    if touched.torn is not None and now.data is not None and _begins(now.data, touched.torn, touched.old):
        return "torn"
    return "other"


def _begins(part: bytes, *wholes: bytes) -> bool:
    """Whether some bytes are the beginning of others: new ones, or old ones whose restoring broke off too."""
    return any(whole.startswith(part) for whole in wholes)


def _same(sha256: str | None, now: Surveyed) -> bool:
    if sha256 is None:
        return now.stat is None and not now.link and isinstance(now.error, FileNotFoundError | NotADirectoryError)
    return not now.link and now.sha256 == sha256


def _link_state(touched: Touched, now: Surveyed) -> State:
    if touched.after_link is not None:
        return "after" if now.link and now.target in (None, touched.after_link) else _gone(now, "before")
    return "before" if now.link and now.target in (None, _link_before(touched)) else _gone(now, "after")


def _gone(now: Surveyed, state: State) -> State:
    return "other" if _is_there(now) else state
