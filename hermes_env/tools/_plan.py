"""From a patch and the bytes of its files to the changes to make, or every reason why not.

Operations run in order on an overlay of the files, so they compose: an added file can be updated, a
moved one moved again, one file patched twice under two spellings. Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from hermes_env.tools._hunks import HunkReport, HunksResult, apply_hunks
from hermes_env.tools._overlay import (
    Entry,
    Missing,
    Overlay,
    Snapshot,
    State,
    Unreadable,
    path_problem,
)
from hermes_env.tools._problem import EditError, ErrorCode, Problem
from hermes_env.tools._result import FileChange, collect
from hermes_env.tools._rules import Compat, Rules, rules_for
from hermes_env.tools._text import Document, to_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hermes_env.tools._v4a_model import Operation, Patch

_QUOTES: Final = ("'", '"', "`")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a patch would do."""

    changes: tuple[FileChange, ...] = ()
    """One per file that changes; with problems only where operations commit one by one."""
    unchanged: tuple[str, ...] = ()
    """Files that the patch names and leaves as they are."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    changed_lines: int = 0
    """As limits count them."""

    @property
    def ok(self) -> bool:
        """Nothing stands in the way."""
        return not self.problems


def unquoted(path: str) -> str | None:
    """Return a path without one pair of quotes or backticks around it, or None if it has none."""
    if len(path) > 2 and path[0] in _QUOTES and path[-1] == path[0]:
        return path[1:-1]
    return None


def paths_of(patch: Patch) -> tuple[str, ...]:
    """Return every path whose state a plan may ask for, each once, in the order of the patch."""
    named = [path for op in patch.operations for path in (op.path, op.move_to) if path is not None]
    spelled = [spelling for path in named for spelling in (path, unquoted(path)) if spelling is not None]
    return tuple(dict.fromkeys(path for path in spelled if path_problem(path) is None))


def make_plan(
    patch: Patch,
    files: Mapping[str, State],
    *,
    compat: Compat = "default",
    overwrite: bool = False,
    idempotent: bool = False,
    encoding: str | None = None,
    eol: str = "\n",
    environment_ids: Collection[str] | None = None,
) -> Plan:
    """Plan a patch.

    Args:
        patch: The parsed patch.
        files: The state of every path of ``paths_of(patch)``.
        compat: Whose choices to follow where the default is stricter.
        overwrite: Add and Move may replace existing files.
        idempotent: A hunk or file that is already there is no error.
        encoding: The encoding of files that are not UTF-8.
        eol: Line terminator of added files.
        environment_ids: The names that ``*** Environment ID`` may carry; None accepts any.

    Returns:
        The plan; problems are in it, never raised.

    Raises:
        ValueError: ``files`` lacks a path of the patch, or ``compat`` or ``eol`` is unknown.
    """
    if eol not in {"\n", "\r\n", "\r"}:
        raise ValueError(f"eol must be LF, CR LF or CR, not {eol!r}")
    missing = [path for path in paths_of(patch) if path not in files]
    if missing:
        raise ValueError(f"the state of {missing[0]!r} is not given")
    planner = _Planner(files, rules_for(compat), encoding=encoding, eol=eol)
    planner.overwrite |= overwrite
    planner.idempotent |= idempotent
    wanted = patch.environment_id
    if wanted is not None and environment_ids is not None and wanted not in environment_ids:
        message = f"the patch is for environment {wanted!r}, not for this one"
        return Plan(problems=(Problem("environment_mismatch", message),), warnings=patch.warnings)
    planner.run(patch)
    changes, unchanged = collect(planner.overlay) if planner.committed else ((), ())
    return Plan(
        changes,
        unchanged,
        tuple(planner.problems),
        (*patch.warnings, *planner.warnings),
        patch.changed_lines,
    )


class _Planner:
    def __init__(self, files: Mapping[str, State], rules: Rules, *, encoding: str | None, eol: str) -> None:
        self.overlay = Overlay(files)
        self.overwrite = rules.overwrite
        self.idempotent = rules.idempotent
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self._rules = rules
        self._encoding = encoding
        self._eol = eol
        self._poisoned: set[str] = set()

    @property
    def committed(self) -> bool:
        """There is something to change."""
        return self._rules.partial or not self.problems

    def run(self, patch: Patch) -> None:
        """Apply every operation to the overlay."""
        for operation in patch.operations:
            keys = self._keys(operation)
            if keys & self._poisoned:
                continue  # What follows a refused operation on the same file says nothing new.
            try:
                self._apply(operation)
            except EditError as error:
                self._poisoned |= keys
                self.problems += [p.at(path=operation.path, patch_line=operation.patch_line) for p in error.problems]
                if self._rules.partial:
                    return

    def _keys(self, operation: Operation) -> set[str]:
        named = (operation.path, operation.move_to)
        return {self.overlay.key(path) for path in named if path is not None and path_problem(path) is None}

    def _apply(self, operation: Operation) -> None:
        for path in (operation.path, operation.move_to):
            problem = path_problem(path) if path is not None else None
            if problem is not None:
                raise EditError(problem)
        if operation.kind == "add":
            self._add(operation)
        elif operation.kind == "delete":
            self._delete(operation)
        else:
            self._update(operation)

    def _resolve(self, path: str) -> str:
        """Return the spelling that exists: the path, or the path without its quotes."""
        bare = unquoted(path)
        if bare is None or self.overlay.exists(path) or not self.overlay.exists(bare):
            return path
        self.warnings.append(f"quotes around {path} were left out")
        return bare

    def _existing(self, path: str) -> Entry:
        entry = self.overlay.get(path)
        self._refuse_unreadable(entry)
        if entry.link is not None:
            _fail(
                "not_regular", f"{path} is a symbolic link that this patch moves there; edit its target by its own name"
            )
        if entry.data is None:
            _fail("not_found", f"{path} does not exist")
        return entry

    def _refuse_unreadable(self, entry: Entry) -> None:
        """Only a proven absence is free: any other failure to read refuses the operation."""
        if entry.unreadable is None:
            return
        file = self.overlay.taken_away_above(entry) if entry.unreadable.below_file else None
        if file is not None:
            message = (
                f"{entry.path} cannot be in {file.path}, which is a file until this patch is applied: use two patches"
            )
            _fail("path_invalid", message)
        _fail(entry.unreadable.code, entry.unreadable.message)

    def _add(self, operation: Operation) -> None:
        path = self._resolve(operation.path)
        entry = self.overlay.get(path)
        self._refuse_unreadable(entry)
        data = self._content(operation)
        if entry.link is not None:
            _fail("already_exists", f"{path} is a symbolic link that this patch moves there")
        if entry.data is not None and not self.overwrite:
            if entry.data != data:
                _fail("already_exists", f"{path} already exists; update it, or allow overwriting")
            if not self.idempotent:
                _fail("already_applied", f"{path} already exists with exactly this content")
        if entry.data is None:
            entry.origin = None
            self._check_room(path, entry)
        self.overlay.write(entry, path, data, None)

    def _check_room(self, path: str, entry: Entry) -> None:
        """No file is at a directory of a new file, nor any file below it."""
        found = self.overlay.in_the_way(entry)
        if found is None:
            return
        file, below = (path if one is entry else one.path for one in found)
        raise EditError(Problem("path_invalid", f"{below} cannot be in {file}, which the patch leaves as a file", path))

    def _content(self, operation: Operation) -> bytes:
        eol = self._eol.encode()
        lines = [to_bytes(line.text, None, self._encoding) for line in operation.lines]
        data = b"".join([line + eol for line in lines])
        ends_open = operation.lines and operation.lines[-1].no_newline
        return data[: len(data) - len(eol)] if ends_open else data

    def _delete(self, operation: Operation) -> None:
        path = self._resolve(operation.path)
        if self.overlay.is_link(path):
            self.overlay.remove_link(path)
            return
        entry = self.overlay.get(path)
        if entry.link is None:
            entry = self._existing(path)
        entry.path = path
        self.overlay.delete(entry)

    def _update(self, operation: Operation) -> None:
        path = self._resolve(operation.path)
        if operation.move_to is not None and self.overlay.is_link(path):
            self._move_link(operation, path, operation.move_to)
            return
        entry = self.overlay.get(path)
        if entry.link is not None and operation.move_to is not None and not operation.hunks:
            self._check_move(entry, path, operation.move_to)
            self._move(entry, path, operation.move_to)
            return
        entry = self._existing(path)
        assert entry.data is not None
        problems: list[Problem] = []
        result = None
        if operation.hunks:
            try:
                result = self._apply_hunks(entry.data, operation)
            except EditError as error:
                problems += error.problems
        if operation.move_to is not None:
            try:
                self._check_move(entry, path, operation.move_to)
            except EditError as error:
                problems += error.problems
        if problems:
            raise EditError(*problems)
        if result is not None:
            self._note_order(path, result.hunks)
            self.overlay.write(entry, path, result.edit.after, result)
        if operation.move_to is not None:
            self._move(entry, path, operation.move_to)

    def _apply_hunks(self, data: bytes, operation: Operation) -> HunksResult:
        rules = replace(self._rules, idempotent=self.idempotent)
        return apply_hunks(Document(data), operation.hunks, rules, encoding=self._encoding)

    def _note_order(self, path: str, hunks: tuple[HunkReport, ...]) -> None:
        late = [str(report.hunk) for report in hunks if report.out_of_order]
        if late:
            self.warnings.append(f"{path}: hunk {', '.join(late)} was placed out of order")
        done = [str(report.hunk) for report in hunks if report.already_applied]
        if done:
            self.warnings.append(f"{path}: hunk {', '.join(done)} was already applied")

    def _stays(self, entry: Entry, path: str, target: str) -> bool:
        return self.overlay.get(target) is entry or self.overlay.same_file(path, target)

    def _check_move(self, entry: Entry, path: str, target: str) -> None:
        if not self._stays(entry, path, target):
            self._check_target(path, target, self.overlay.get(target))

    def _move(self, entry: Entry, path: str, target: str) -> None:
        if self._stays(entry, path, target):
            self.warnings.append(f"{path} is moved to itself")
        else:
            self.overlay.move(entry, path, self.overlay.get(target), target)

    def _check_target(self, path: str, target: str, other: Entry) -> None:
        if self.overlay.is_respelled(path, target):
            return
        try:
            self._refuse_unreadable(other)
        except EditError as error:
            raise EditError(error.problem.at(path=target)) from None
        if other.link is not None or (other.data is not None and not self.overwrite):
            raise EditError(
                Problem(
                    "already_exists",
                    f"{target} already exists, so {path} cannot move there",
                    target,
                )
            )
        if not other.present:
            self._check_room(target, other)

    def _move_link(self, operation: Operation, path: str, target: str) -> None:
        if operation.hunks:
            _fail(
                "not_regular",
                f"{path} is a symbolic link; move it or edit its target, not both in one step",
            )
        other = self.overlay.get(target)
        self._check_target(path, target, other)
        self.overlay.move_link(path, other, target)


def _fail(code: ErrorCode, message: str) -> NoReturn:
    raise EditError(Problem(code, message))


__all__ = [
    "Missing",
    "Plan",
    "Snapshot",
    "State",
    "Unreadable",
    "make_plan",
    "paths_of",
    "unquoted",
]
