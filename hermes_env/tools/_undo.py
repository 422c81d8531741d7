"""Undoing an applied edit, and recovering from one whose client was killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from hermes_env import owner_is_gone, owner_labels
from hermes_env._errors import HermesEnvError
from hermes_env.tools._editing import state_directory
from hermes_env.tools._journal import Before, DamagedJournal, Journal, Touched, decode
from hermes_env.tools._locks import ACTIVE, TURNS, key_of
from hermes_env.tools._look import refuse_unreadable
from hermes_env.tools._overlay import Snapshot
from hermes_env.tools._plan import Plan
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._result import FileChange
from hermes_env.tools._settle import Settled, Settler
from hermes_env.tools._splice import apply_splices

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment, FileStat
    from hermes_env.tools._look import Looked, Place

_FOREIGN_AGE: Final = 600.0
"""Seconds after which a journal of another machine's client is taken for left behind: no commit lasts so long."""

_CHANGED: Final = "the file changed since that edit, so undoing it would lose the change"


def undo_plan(journal: Journal, looked: Looked) -> Plan:
    """The changes that put back what an edit changed; only if its files are as it left them."""
    changes: list[FileChange] = []
    problems: list[Problem] = []
    for touched in journal.files:
        try:
            change = _back(touched, looked)
        except EditError as error:
            problems += error.problems
            continue
        if change is not None:
            changes.append(change)
    return Plan(problems=tuple(problems)) if problems else Plan(tuple(changes))


def _back(touched: Touched, looked: Looked) -> FileChange | None:
    path = touched.path
    if touched.is_link:
        return _link_back(touched, looked)
    state = looked.states[path]
    refuse_unreadable(state, touched.shown)
    now = state if isinstance(state, Snapshot) else None
    if (now.sha256 if now else None) != touched.after_sha256 or (now is not None and now.link):
        raise EditError(Problem("stale", _CHANGED, touched.shown))
    if touched.before is None:
        return FileChange("delete", path, None, now)
    mode = touched.before.mode
    if now is None:
        return FileChange("add", path, touched.old, mode=mode, owner=touched.before.owner)
    if touched.back is None:
        return FileChange("update", path, touched.old, now, mode=mode)
    return FileChange("update", path, _old_bytes(touched, touched.before, now), now, mode=mode, splices=touched.back)


def _link_back(touched: Touched, looked: Looked) -> FileChange:
    """A symbolic link that the edit made goes, one that it took away comes back."""
    found = looked.found[touched.path]
    if found.target != touched.after_link or (found.link or found.stat is not None) != (touched.after_link is not None):
        raise EditError(Problem("stale", _CHANGED, touched.shown))
    if touched.before is None or touched.before.link is None:
        return FileChange("delete", touched.path, None, link=True, target=touched.after_link)
    return FileChange("add", touched.path, None, link=True, target=touched.before.link)


def _old_bytes(touched: Touched, before: Before, now: Snapshot) -> bytes:
    """The old bytes of a file of which the backup holds the replaced ranges only.

    Raises:
        EditError: They are not those that the edit found.
    """
    back = touched.back or ()
    old = apply_splices(now.data, back) if all(splice.end <= len(now.data) for splice in back) else b""
    if sha256(old).hexdigest() != before.sha256:
        raise EditError(Problem("not_found", "the backup of this file is damaged", touched.shown))
    return old


@dataclass(frozen=True, slots=True)
class Recovered:
    """One edit that had broken off."""

    edit_id: str
    done: Literal["finished", "undone", "running", "damaged", "failed"]
    """``finished``: all files were as meant; ``undone``: all are as they were; the others stay for a later call."""
    paths: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Files that hold what somebody else wrote since."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What `recover` did."""

    edits: tuple[Recovered, ...]
    swept: tuple[str, ...]
    """Temporary files of dead writers that were removed."""

    @property
    def clean(self) -> bool:
        """Nothing is left half done."""
        return all(edit.done in ("finished", "undone") and not edit.left for edit in self.edits)


class Recoverer:
    """Reads the journals that stand in an environment."""

    def __init__(self, env: BaseEnvironment, place: Place, state_dir: str | None) -> None:
        self._env, self._place, self._state_dir = env, place, state_dir
        self._settler = Settler(env)

    def recover(self, *, force: bool = False, dry_run: bool = False) -> Recovery:
        """Finish or undo every edit whose client is gone, then remove temporary files of dead writers."""
        files = self._env.files
        looked = self._place.look(["."])
        state = state_directory(self._state_dir, looked)
        uid = looked.survey.uid
        edits = [self._one(entry, uid, force=force, dry_run=dry_run) for entry in self._journals(state)]
        if dry_run:
            return Recovery(tuple(edit for edit in edits if edit is not None), ())
        roots = [root for root in (looked.policy.workspace, *looked.policy.extra_roots) if root is not None]
        swept = [*files.sweep([state], backups=True).removed, *files.sweep(roots, below=True).removed]
        return Recovery(tuple(edit for edit in edits if edit is not None), tuple(swept))

    def _journals(self, state: str) -> Sequence[FileStat]:
        try:
            entries = self._env.files.list_dir(state)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [entry for entry in entries if entry.name.endswith(".journal")]

    def _one(self, entry: FileStat, uid: int, *, force: bool, dry_run: bool) -> Recovered | None:
        edit_id = entry.name.removesuffix(".journal")
        if edit_id in ACTIVE:
            return None
        if entry.kind != "file" or entry.uid != uid or entry.mode & 0o022:
            return Recovered(edit_id, "damaged", message=f"{entry.path} was not written by this user")
        try:
            journal = decode(self._env.files.read_bytes(entry.path))
        except DamagedJournal as error:
            return Recovered(edit_id, "damaged", message=str(error))
        paths = tuple(touched.shown for touched in journal.files)
        if not force and not _left_behind(journal):
            return Recovered(edit_id, "running", paths, message="its client may still be at work")
        if dry_run:
            return _recovered(journal, self._settler.foresee(journal), paths)
        return self._settle(journal, entry.path, paths)

    def _settle(self, journal: Journal, place: str, paths: tuple[str, ...]) -> Recovered:
        real = [touched.path for touched in journal.files]
        key = key_of(self._env)
        try:
            with TURNS.editing() as since, TURNS.hold(key, real, since):
                settled = self._settler.settle(journal)
                TURNS.note(key, real)
            self._env.files.remove(place)
        except (HermesEnvError, OSError) as error:
            return Recovered(journal.edit_id, "failed", paths, message=str(error))
        return _recovered(journal, settled, paths)


def _recovered(journal: Journal, settled: Settled, paths: tuple[str, ...]) -> Recovered:
    return Recovered(journal.edit_id, "finished" if settled.done == "applied" else "undone", paths, settled.left)


def _left_behind(journal: Journal) -> bool:
    """Whether the client of a journal is gone, as far as can be told from here."""
    if journal.owner.get("hermes_env.owner") == owner_labels("").get("hermes_env.owner"):
        # Of this process, and not under way: it failed while the link was down.
        return True
    return owner_is_gone(journal.owner) or time.time() - journal.time > _FOREIGN_AGE
