"""The files of a patch in memory, by canonical path, as the operations so far have left them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from hermes_env.tools._problem import ErrorCode, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_env.tools._hunks import HunkReport, HunksResult
    from hermes_env.tools._splice import Splice


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A regular file as it was read."""

    data: bytes
    sha256: str
    mode: int | None = None
    """Permission bits, as in ``0o644``."""
    real: str | None = None
    """The path with every symbolic link resolved, inside the environment; None: the path itself."""
    link: bool = False
    """The path itself is a symbolic link; ``data`` is that of its target."""
    identity: tuple[int, int] | None = None
    """Device and inode of the file."""
    target: str | None = None
    """Text of the symbolic link that the path itself is."""
    owner: tuple[int, int] | None = None
    """Numbers of user and group."""

    @classmethod
    def of(cls, data: bytes, *, mode: int | None = None) -> Snapshot:
        """Return the snapshot of some bytes."""
        return cls(data, sha256(data).hexdigest(), mode)


@dataclass(frozen=True, slots=True)
class Missing:
    """A path at which, provenly, nothing is."""

    real: str | None = None
    """The path with its parent resolved; None: the path itself."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path at which something is, or may be, that is not a readable regular file."""

    code: ErrorCode
    message: str
    real: str | None = None
    link: bool = False
    """The path itself is a symbolic link, to nothing or to something that is no file."""
    target: str | None = None
    """Text of that link."""
    below_file: bool = False
    """A part of the path is a file."""


State = Snapshot | Missing | Unreadable


def path_problem(path: str) -> Problem | None:
    """Return why a path names no file, or None."""
    if not path.strip():
        return Problem("path_invalid", "the path is empty")
    if any(char in path for char in "\0\n\r"):
        return Problem("path_invalid", "the path holds a NUL or a line break")
    stray = next((char for char in path if "\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff"), None)
    if stray is not None:
        return Problem(
            "path_invalid", f"the path holds the stray surrogate U+{ord(stray):04X}, which stands for no byte"
        )
    return None


def canonical(path: str) -> str:
    """Return a path without ``.``, ``..`` and repeated slashes, by its text alone."""
    parts: list[str] = []
    for part in path.split("/"):
        if part in {"", "."}:
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not path.startswith("/"):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


@dataclass(slots=True, eq=False)
class Entry:
    """One file now."""

    key: str
    path: str
    """The spelling that the patch used last."""
    data: bytes | None
    original: Snapshot | None = None
    unreadable: Unreadable | None = None
    origin: Entry | None = None
    """Where the content came from; its mode goes with it."""
    was_link: str | None = None
    """Text of the symbolic link that had this name, which may be in use again."""
    link: str | None = None
    """Text of the symbolic link that it is now, moved here."""
    touched: bool = False
    hunks: list[HunkReport] = field(default_factory=list)
    splices: tuple[Splice, ...] | None = None
    """The edit against the content of ``origin``, while one update is all that happened."""
    edits: int = 0

    @property
    def present(self) -> bool:
        """A file or a link is there now."""
        return self.data is not None or self.link is not None


class Overlay:
    """All files that a patch names."""

    def __init__(self, files: Mapping[str, State]) -> None:
        self._files = files
        self._unlinked: set[str] = set()
        self._entries: dict[str, Entry] = {}
        self._above: set[str] = set()
        """Keys of directories in which files were written; those files may be gone again."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every file looked at so far, in the order of the patch."""
        return tuple(self._entries.values())

    def key(self, path: str) -> str:
        """Return the name under which all spellings of one file meet."""
        plain = canonical(path)
        state = self._files.get(path)
        if state is None or state.real is None or plain in self._unlinked:
            return plain
        return canonical(state.real)

    def get(self, path: str) -> Entry:
        """Return the file that a path names now."""
        key = self.key(path)
        if key not in self._entries:
            self._entries[key] = self._load(key, path)
        return self._entries[key]

    def _load(self, key: str, path: str) -> Entry:
        state = self._files.get(path)
        if isinstance(state, Unreadable):
            return Entry(key, path, None, unreadable=state)
        if isinstance(state, Snapshot):
            entry = Entry(key, path, state.data, state)
            entry.origin = entry
            return entry
        return Entry(key, path, None)

    def exists(self, path: str) -> bool:
        """Tell whether something is at a path now."""
        if path not in self._files:
            return False
        entry = self.get(path)
        return entry.present or entry.unreadable is not None

    def is_link(self, path: str) -> bool:
        """Tell whether the path itself is a symbolic link now."""
        state = self._files.get(path)
        return isinstance(state, Snapshot | Unreadable) and state.link and canonical(path) not in self._unlinked

    def same_file(self, a: str, b: str) -> bool:
        """Tell whether two paths are one inode under names that differ in more than spelling."""
        left, right = self._files.get(a), self._files.get(b)
        if not isinstance(left, Snapshot) or not isinstance(right, Snapshot) or left.identity is None:
            return False
        return left.identity == right.identity and not self.is_respelled(a, b)

    def is_respelled(self, a: str, b: str) -> bool:
        """Tell whether two paths of one inode differ only in case or Unicode form."""
        left, right = self._files.get(a), self._files.get(b)
        if not isinstance(left, Snapshot) or not isinstance(right, Snapshot) or left.identity is None:
            return False
        return left.identity == right.identity and canonical(a) != canonical(b) and _folded(a) == _folded(b)

    def in_the_way(self, entry: Entry) -> tuple[Entry, Entry] | None:
        """Return a file and the one below it, if a new file cannot be, as one cannot be in the other."""
        for key in _parents(entry.key):
            file = self._entries.get(key)
            if file is not None and file.present:
                return file, entry
        if entry.key not in self._above:
            return None
        below = (other for other in self._entries.values() if other.present)
        return next(((entry, other) for other in below if entry.key in _parents(other.key)), None)

    def taken_away_above(self, entry: Entry) -> Entry | None:
        """Return a file that is on the disk at a directory of a path, and that the patch removes or moves away."""
        above = {*_parents(entry.key), *_parents(canonical(entry.path))}
        gone = (file for file in self._entries.values() if file.touched and not file.present)
        return next((file for file in gone if not above.isdisjoint((file.key, canonical(file.path)))), None)

    def write(self, entry: Entry, path: str, data: bytes, result: HunksResult | None) -> None:
        """Give a file new content."""
        entry.path, entry.touched = path, True
        entry.splices = result.edit.splices if result is not None and entry.edits == 0 else None
        entry.hunks += result.hunks if result is not None else ()
        entry.edits += 1
        entry.data = data
        self._above.update(_parents(entry.key))

    def delete(self, entry: Entry) -> None:
        """Remove a file."""
        entry.data, entry.origin, entry.link, entry.touched = None, None, None, True
        entry.hunks, entry.splices, entry.edits = [], None, entry.edits + 1

    def move(self, entry: Entry, path: str, other: Entry, target: str) -> None:
        """Give the content of one file, and what happened to it, to another name."""
        other.data, other.origin, other.path = entry.data, entry.origin, target
        other.hunks, other.splices = entry.hunks, entry.splices
        other.edits, other.touched = entry.edits, True
        other.link = entry.link
        self._above.update(_parents(other.key))
        entry.path = path
        self.delete(entry)

    def remove_link(self, path: str) -> Entry:
        """Remove a symbolic link and leave its target; return the entry of the link."""
        plain, state = canonical(path), self._files.get(path)
        assert isinstance(state, Snapshot | Unreadable)
        self._unlinked.add(plain)
        link = Entry(plain, path, None, was_link=state.target or "", touched=True, edits=1)
        self._entries[plain] = link
        return link

    def move_link(self, path: str, other: Entry, target: str) -> None:
        """Give a symbolic link another name."""
        link = self.remove_link(path)
        other.link, other.origin, other.path, other.touched = link.was_link, link, target, True
        self._above.update(_parents(other.key))


def _parents(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", canonical(path)).casefold()
