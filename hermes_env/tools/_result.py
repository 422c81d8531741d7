"""The final changes of a plan: for each file what it was and what it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from hermes_env._codec import encode_lossless
from hermes_env.tools._diff import MAX_DIFF_LINES, FileDiff, unified_diff

if TYPE_CHECKING:
    from hermes_env.tools._hunks import HunkReport
    from hermes_env.tools._overlay import Entry, Overlay, Snapshot
    from hermes_env.tools._splice import Splice

ChangeKind = Literal["add", "update", "delete", "move"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """What happens to one file."""

    kind: ChangeKind
    path: str
    """The caller's path; of a move, where the file goes."""
    after: bytes | None
    """The new content; None for a delete."""
    before: Snapshot | None = None
    """The old file: at ``path``, or at ``source`` for a move; None for an add."""
    source: str | None = None
    """Where a moved file was."""
    replaced: Snapshot | None = None
    """The file that a move overwrites."""
    mode: int | None = None
    """Permission bits that the file keeps; None for a new file."""
    owner: tuple[int, int] | None = None
    """Whom a file belongs to that is made again, or moved with other content."""
    link: bool = False
    """A symbolic link is made, moved, deleted or replaced by a file, not its target; such a change has no `before`."""
    target: str | None = None
    """Text of that link."""
    hunks: tuple[HunkReport, ...] = ()
    splices: tuple[Splice, ...] | None = None
    """The replaced ranges of ``before``, where one update is all that happened."""
    _known: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was computed already: both cost a pass over a file that may have 100 MiB."""

    @property
    def content_changed(self) -> bool:
        """The bytes differ, so this is more than a rename."""
        return self.before is None or self.after != self.before.data

    @property
    def after_sha256(self) -> str | None:
        """Hex digest of the new content."""
        if self.after is None:
            return None
        if "sha256" not in self._known:
            self._known["sha256"] = sha256(self.after).hexdigest()
        return str(self._known["sha256"])

    def diff(self) -> FileDiff:
        """Return the unified diff of this file, at most 100 lines of it."""
        known = self._known.get("diff")
        if isinstance(known, FileDiff):
            return known
        before, after = self._sides()
        made = unified_diff(
            before, after, path=self.path, old_path=self.source, splices=self.splices, max_lines=MAX_DIFF_LINES
        )
        self._known["diff"] = made
        return made

    def _sides(self) -> tuple[bytes | None, bytes | None]:
        """What the diff compares: of a link its text, as git does."""
        if not self.link:
            return None if self.before is None else self.before.data, self.after
        text = encode_lossless(self.target or "")
        before = None if self.kind == "add" else text
        return before, self.after if self.kind == "update" else (None if self.kind == "delete" else text)


def collect(overlay: Overlay) -> tuple[tuple[FileChange, ...], tuple[str, ...]]:
    """Return the changes from the files as they were to now, and the unchanged paths."""
    entries = [entry for entry in overlay.entries if entry.touched]
    moved = _moved(entries)
    changes: list[FileChange] = []
    unchanged: list[str] = []
    for entry in entries:
        if not entry.present:
            if id(entry) not in moved:
                changes += _removed(entry)
            continue
        change = _written(entry, moved)
        if change is None:
            unchanged.append(entry.path)
        else:
            changes.append(change)
    return tuple(changes), tuple(unchanged)


def _moved(entries: list[Entry]) -> dict[int, Entry]:
    """Map each file that is gone to the one entry that has its content now."""
    moved: dict[int, Entry] = {}
    for entry in entries:
        origin = entry.origin
        if not entry.present or origin is None or origin is entry or origin.present:
            continue
        moved.setdefault(id(origin), entry)
    return moved


def _removed(entry: Entry) -> list[FileChange]:
    if entry.was_link is not None:
        return [FileChange("delete", entry.path, None, link=True, target=entry.was_link)]
    return [] if entry.original is None else [FileChange("delete", entry.path, None, entry.original)]


def _linked(entry: Entry, link: str, moved: dict[int, Entry]) -> FileChange | None:
    origin = entry.origin
    if origin is entry:
        return None
    if origin is None or moved.get(id(origin)) is not entry or entry.was_link is not None:
        return FileChange("update", entry.path, None, link=True, target=link)
    return FileChange("move", entry.path, None, None, origin.path, entry.original, link=True, target=link)


def _written(entry: Entry, moved: dict[int, Entry]) -> FileChange | None:
    if entry.link is not None:
        return _linked(entry, entry.link, moved)
    origin, data = entry.origin, entry.data
    assert data is not None
    source = origin.original if origin is not None else None
    mode = source.mode if source is not None else None
    hunks = tuple(entry.hunks)
    if origin is not None and origin is not entry and moved.get(id(origin)) is entry:
        return FileChange(
            "move",
            entry.path,
            data,
            source,
            origin.path,
            entry.original,
            mode,
            source.owner if source is not None else None,
            hunks=hunks,
            splices=entry.splices,
        )
    if entry.was_link is not None:
        return FileChange("update", entry.path, data, link=True, target=entry.was_link, hunks=hunks)
    if entry.original is None:
        return FileChange("add", entry.path, data, mode=mode, hunks=hunks)
    if data == entry.original.data and mode == entry.original.mode:
        return None
    splices = entry.splices if origin is entry else None
    return FileChange("update", entry.path, data, entry.original, mode=mode, hunks=hunks, splices=splices)
