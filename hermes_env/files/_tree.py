"""Copies of folders: what differs is planned, sent, and checked by digests that share nothing with the sending."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from hermes_env._errors import FileChanged, TransportError

from ._oserror import os_error
from ._types import Kind, Skipped, TransferResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ._tree_native import NativeTree
    from ._types import WriteResult

_SPECIAL = ("fifo", "socket", "block", "char")
Sum = tuple[str, str]
"""What hashed (``sha256``, ``cksum`` or ``none``), and the digest."""
Algorithm = Literal["sha256", "cksum", "none"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder."""

    name: str
    """Relative to the folder, which itself is ``""``."""
    kind: Kind
    size: int = 0
    mode: int = 0
    target: str | None = None

    @property
    def folder(self) -> str:
        """Name of the folder it is in."""
        return self.name.rpartition("/")[0]


@dataclass(slots=True)
class Order:
    """What has to be done to one folder so that it becomes like another."""

    root_mode: int
    """For the folder itself, when it has to be made."""
    make_root: bool
    sum_of: Callable[[Entry, Algorithm], str]
    """Digest of a file where it comes from, by a reading of its own."""
    algorithm: Algorithm = "sha256"
    durable: bool = True
    make_parents: bool = False
    folders: list[Entry] = field(default_factory=list)
    links: list[Entry] = field(default_factory=list)
    files: list[Entry] = field(default_factory=list)
    modes: list[Entry] = field(default_factory=list)
    """Whose mode has to be changed at the end."""

    def make_folder(self, entry: Entry) -> None:
        """A new folder can be filled by its owner, whatever its mode becomes at the end."""
        usable = replace(entry, mode=entry.mode | 0o700)
        self.folders.append(usable)
        if usable != entry:
            self.modes.append(entry)


class Sink(Protocol):
    """Takes files one after the other."""

    def begin(self, entry: Entry) -> None: ...

    def body(self, data: bytes) -> None: ...

    def end(self) -> None: ...


class Tree(Protocol):
    """A folder somewhere."""

    path: str
    """As the caller named it."""
    algorithm: Algorithm
    """What hashes there; known when it has been looked at."""
    tool: str
    """The program that does."""

    def walk(self) -> list[Entry]: ...

    def look(self, entries: Sequence[Entry]) -> dict[str, Entry]: ...

    def sums(self, files: Sequence[Entry], algorithm: Algorithm) -> dict[str, str]: ...

    def fetch(self, files: Sequence[Entry], sink: Sink) -> None: ...

    def store(self, order: Order, read: Callable[[Entry], Iterator[bytes]]) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How the caller wants a folder to be copied."""

    durable: bool
    make_parents: bool = False
    progress: Callable[[int], None] | None = None
    expect: Callable[[int], None] | None = None


def upload(local: NativeTree, remote: Tree, wishes: Wishes) -> TransferResult:
    """Make a folder of an environment like one of this machine."""
    entries = checked(local.walk(), local.path)
    plan = Plan(entries, remote.look(entries), remote.path)
    plan.compare(local, remote, remote.algorithm)
    order = plan.order(local.sum_of, wishes, remote.algorithm)
    meter = Meter(wishes, order.files)
    tool = remote.store(order, lambda entry: meter.passing(local.read(entry)))
    return plan.result(order, tool)


def download(remote: Tree, local: NativeTree, wishes: Wishes) -> TransferResult:
    """Make a folder of this machine like one of an environment, of which nothing is trusted."""
    entries = checked(remote.walk(), remote.path)
    plan = Plan([harmless(entry) for entry in entries], local.look(entries), local.path)
    sums = plan.compare(remote, local, remote.algorithm, everything=True)
    order = plan.order(lambda entry, _: sums[entry.name], wishes, remote.algorithm)
    meter = Meter(wishes, order.files)
    with local.filled(order) as sink:
        remote.fetch(order.files, MeteredSink(sink, meter))
    return plan.result(order, remote.tool)


def checked(entries: Iterable[Entry], path: str) -> list[Entry]:
    """Entries in an order in which folders come before what is in them.

    Raises:
        TransportError: A name leads out of the folder, occurs twice, or is in something that is no folder.
    """
    ordered = sorted(entries, key=lambda entry: entry.name.split("/"))
    folders: set[str] = set()
    seen: set[str] = set()
    for entry in ordered:
        parts = entry.name.split("/")
        bad = entry.name and any(part in ("", ".", "..") or "\0" in part for part in parts)
        if bad or entry.name in seen or (entry.name and entry.folder not in folders):
            raise TransportError(f"{path}: the environment named {entry.name!r}, which can be no part of this folder")
        seen.add(entry.name)
        if entry.kind == "directory":
            folders.add(entry.name)
    if "" not in folders:
        raise TransportError(f"{path}: the environment did not tell of the folder itself")
    return ordered


def harmless(entry: Entry) -> Entry:
    """Without set-user-id, set-group-id and sticky bits: an environment must not grant rights on this machine."""
    return replace(entry, mode=entry.mode & 0o777)


class Plan:
    """What is to be made, what is to be compared, and what is left alone."""

    def __init__(self, entries: Sequence[Entry], there: dict[str, Entry], path: str) -> None:
        self._path = path
        self._there = there
        self._root = next(entry for entry in entries if not entry.name)
        self._new: list[Entry] = []
        self._same_size: list[Entry] = []
        self._modes: list[Entry] = []
        self._files: list[Entry] = []
        self._unchanged = 0
        self.skipped = tuple(Skipped(entry.name, entry.kind) for entry in entries if entry.kind in _SPECIAL)
        for entry in entries:
            if entry.name and entry.kind not in _SPECIAL:
                self._consider(entry, there.get(entry.name))

    def _consider(self, entry: Entry, old: Entry | None) -> None:
        if old is None:
            (self._files if entry.kind == "file" else self._new).append(entry)
            return
        if (old.kind == "directory") != (entry.kind == "directory"):
            code = errno.EISDIR if old.kind == "directory" else errno.ENOTDIR
            raise os_error(code, within(self._path, entry.name))
        if entry.kind == "file":
            same = old.kind == "file" and old.size == entry.size
            (self._same_size if same else self._files).append(entry)
        elif entry.kind == "symlink":
            if (old.kind, old.target) != ("symlink", entry.target):
                self._new.append(entry)
        elif old.mode != entry.mode:
            self._modes.append(entry)

    def compare(self, source: Tree, dest: Tree, algorithm: Algorithm, *, everything: bool = False) -> dict[str, str]:
        """Find the files that are there already; digests at the source of those that were looked at."""
        asked = [*self._files, *self._same_size] if everything else self._same_size
        if algorithm == "none":
            self._files += self._same_size
            return dict.fromkeys((entry.name for entry in asked), "")
        sums = source.sums(asked, algorithm) if asked else {}
        theirs = dest.sums(self._same_size, algorithm) if self._same_size else {}
        for entry in self._same_size:
            if sums[entry.name] != theirs.get(entry.name):
                self._files.append(entry)
                continue
            self._unchanged += 1
            if self._there[entry.name].mode != entry.mode:
                self._modes.append(entry)
        return sums

    def order(self, sum_of: Callable[[Entry, Algorithm], str], wishes: Wishes, algorithm: Algorithm) -> Order:
        """All that has to be done."""
        make_root = "" not in self._there
        order = Order(self._root.mode | 0o700, make_root, sum_of, algorithm, wishes.durable, wishes.make_parents)
        for entry in self._new:
            if entry.kind == "directory":
                order.make_folder(entry)
            else:
                order.links.append(entry)
        order.files = sorted(self._files, key=lambda entry: (entry.folder, entry.name))
        order.modes += self._modes
        if make_root and order.root_mode != self._root.mode:
            order.modes.append(self._root)
        # Deepest first: a folder that becomes closed is not entered any more.
        order.modes.sort(key=lambda entry: entry.name.split("/"), reverse=True)
        return order

    def result(self, order: Order, tool: str) -> TransferResult:
        """What came of it."""
        return TransferResult(
            path=self._path,
            files=len(order.files),
            size=sum(entry.size for entry in order.files),
            unchanged=self._unchanged,
            directories=len(order.folders) + ("" not in self._there),
            links=len(order.links),
            skipped=self.skipped,
            verified=tool != "none",
            verified_by=None if tool == "none" else tool,
        )


class Meter:
    """Tells the caller how far a copy has come."""

    def __init__(self, wishes: Wishes, files: Sequence[Entry]) -> None:
        self._progress = wishes.progress
        self._done = 0
        if wishes.expect is not None:
            wishes.expect(sum(entry.size for entry in files))

    def add(self, count: int) -> None:
        """So many bytes more."""
        self._done += count
        if self._progress is not None:
            self._progress(self._done)

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Chunks, counted as they go by."""
        for chunk in chunks:
            yield chunk
            self.add(len(chunk))


class MeteredSink:
    """A sink that counts."""

    def __init__(self, sink: Sink, meter: Meter) -> None:
        self._sink, self._meter = sink, meter
        self.begin, self.end = sink.begin, sink.end

    def body(self, data: bytes) -> None:
        """Pass on and count."""
        self._sink.body(data)
        self._meter.add(len(data))


def within(path: str, name: str) -> str:
    """The caller's path of something in a folder."""
    return f"{path.rstrip('/')}/{name}" if name else path


def changed(path: str, entry: Entry) -> FileChanged:
    """The error for a file that is not any more what it was when it was listed."""
    return FileChanged(within(path, entry.name), "changed while the folder was copied, or was damaged on the way")


class IsFolder(Exception):
    """What was to be read as a file is a folder."""


def unless_folder(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks.

    Raises:
        IsFolder: There are none, since it is one.
    """
    try:
        yield from chunks
    except IsADirectoryError:
        raise IsFolder from None


def names_folder(path: str) -> bool:
    """Whether a path of this machine can only be that of a folder."""
    return path.rpartition("/")[2] in ("", ".", "..") or os.path.isdir(path)


def single(result: WriteResult) -> TransferResult:
    """What the copy of one file came to."""
    return TransferResult(
        path=result.path,
        files=1,
        size=result.size,
        unchanged=0,
        directories=0,
        links=0,
        skipped=(),
        verified=result.verified,
        verified_by=result.verified_by,
    )
