"""A folder of this machine: entered by descriptors only, so that no name and no link leads out of it."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env._errors import VerificationError

from . import _native_paths as paths
from ._digest import Cksum, Tally
from ._native_io import CHUNK, TrailingHash, naming, write_all
from ._stats import kind_of
from ._temp_names import new_mark
from ._tree import Algorithm, Entry, Order, Sink, changed, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CONTENT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Folders:
    """Opens the folders below one folder, component by component; no link is followed on the way."""

    def __init__(self, root: bytes) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name, self._fd = "", os.dup(self._root)

    def at(self, name: str) -> int:
        """A descriptor of that folder, good until the next call."""
        if name != self._name:
            fd = self._open(name)
            os.close(self._fd)
            self._name, self._fd = name, fd
        return self._fd

    def _open(self, name: str) -> int:
        fd = os.dup(self._root)
        for part in encode_lossless(name).split(b"/") if name else ():
            try:
                below = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd

    def close(self) -> None:
        """Let go."""
        os.close(self._root)
        os.close(self._fd)


class NativeTree:
    """A folder of this machine."""

    algorithm: Algorithm = "sha256"
    tool = "native"

    def __init__(self, root: bytes, path: str) -> None:
        self.path = path
        self._root = root

    @contextmanager
    def _folders(self) -> Iterator[Folders]:
        with naming(self.path):
            folders = Folders(self._root)
        try:
            yield folders
        finally:
            folders.close()

    # -- looking --------------------------------------------------------------------------------------------------

    def walk(self) -> list[Entry]:
        """Everything in the folder, the folder itself first."""
        with self._folders() as folders:
            found = [Entry("", "directory", mode=stat.S_IMODE(os.fstat(folders.at("")).st_mode))]
            waiting = [""]
            while waiting:
                folder = waiting.pop()
                with naming(within(self.path, folder)):
                    below = list(_entries(folders.at(folder), f"{folder}/" if folder else ""))
                found += below
                waiting += [entry.name for entry in below if entry.kind == "directory"]
        return found

    def look(self, entries: Sequence[Entry]) -> dict[str, Entry]:
        """Those of the names that are there."""
        found: dict[str, Entry] = {}
        if not paths.lexists(self._root):
            return found
        with self._folders() as folders:
            for entry in entries:
                if entry.name and _is_closed(found, entry.folder):
                    continue
                with naming(within(self.path, entry.name)), suppress(FileNotFoundError):
                    found[entry.name] = _entry(folders.at(entry.folder), entry.name)
        return found

    def sums(self, files: Sequence[Entry], algorithm: Algorithm) -> dict[str, str]:
        """Digests of files."""
        return {entry.name: self.sum_of(entry, algorithm) for entry in files}

    def sum_of(self, entry: Entry, algorithm: Algorithm) -> str:
        """Digest of a file, read for that alone."""
        if algorithm == "none":
            return ""
        digest: Tally | Cksum = Cksum() if algorithm == "cksum" else Tally()
        for chunk in self.read(entry):
            digest.update(chunk)
        return digest.value() if isinstance(digest, Cksum) else digest.sha256

    # -- giving ---------------------------------------------------------------------------------------------------

    def read(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of a file, exactly as many as it had when it was listed.

        Raises:
            FileChanged: It has more or fewer now.
        """
        path = within(self.path, entry.name)
        with self._folders() as folders, naming(path):
            fd = os.open(_base(entry), _CONTENT, dir_fd=folders.at(entry.folder))
        try:
            state = os.fstat(fd)
            if not stat.S_ISREG(state.st_mode) or state.st_size != entry.size:
                raise changed(self.path, entry)
            yield from _exactly(fd, entry.size)
            if os.fstat(fd).st_mtime_ns != state.st_mtime_ns:
                raise changed(self.path, entry)
        except EOFError:
            raise changed(self.path, entry) from None
        finally:
            os.close(fd)

    def fetch(self, files: Sequence[Entry], sink: Sink) -> None:
        """Give files to a sink."""
        _hand_over(files, self.read, sink)

    # -- taking ---------------------------------------------------------------------------------------------------

    def store(self, order: Order, read: Callable[[Entry], Iterator[bytes]]) -> str:
        """Carry out an order; returns what verified it."""
        with self.filled(order) as sink:
            _hand_over(order.files, read, sink)
        return "none" if order.algorithm == "none" else self.tool

    @contextmanager
    def filled(self, order: Order) -> Iterator[Sink]:
        """Make folders and links, let the block bring the files, and set modes at the end."""
        self._make_root(order)
        with self._folders() as folders:
            for entry in order.folders:
                with naming(within(self.path, entry.name)):
                    _make_folder(folders.at(entry.folder), entry)
            receiver = Receiver(self.path, folders, order)
            for entry in order.links:
                receiver.link(entry)
            try:
                yield receiver
            finally:
                receiver.abandon()
            receiver.sync()
            for entry in order.modes:
                with naming(within(self.path, entry.name)):
                    _set_mode(folders, entry)

    def _make_root(self, order: Order) -> None:
        with naming(self.path):
            if os.path.isdir(self._root):
                return
            if order.make_parents:
                paths.make_parents(os.path.dirname(self._root.rstrip(b"/")))
            os.mkdir(self._root, 0o700)
            os.chmod(self._root, order.root_mode)


class Receiver:
    """Takes files into a folder: each is private until its bytes are proven, then gets mode and name at once."""

    def __init__(self, path: str, folders: Folders, order: Order) -> None:
        self._path, self._folders, self._order = path, folders, order
        self._temp = new_mark() + b"1.tmp"
        self._entry = Entry("", "file")
        self._writer = self._reader = self._folder = -1
        self._touched: set[str] = set()

    def begin(self, entry: Entry) -> None:
        """A file begins."""
        self._entry = entry
        self._tally = Tally(with_cksum=self._order.algorithm == "cksum")
        with naming(within(self._path, entry.name)):
            # A descriptor of its own: the next file may be in another folder.
            self._folder = os.dup(self._folders.at(entry.folder))
            flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._writer = os.open(self._temp, os.O_WRONLY | flags, 0o600, dir_fd=self._folder)
            self._reader = os.open(self._temp, _CONTENT, dir_fd=self._folder)
        self._behind = TrailingHash(self._reader)

    def body(self, data: bytes) -> None:
        """Some of its bytes."""
        with naming(within(self._path, self._entry.name)):
            write_all(self._writer, data)
        self._tally.update(data)
        if self._tally.size > CHUNK:
            self._behind.advance(self._tally.size)

    def end(self) -> None:
        """That was all of it."""
        with naming(within(self._path, self._entry.name)):
            self._behind.rush(self._tally.size)
            written = self._behind.finish()
            self._prove(written)
            os.fchmod(self._writer, self._entry.mode)
            if self._order.durable:
                os.fsync(self._writer)
            os.rename(self._temp, _base(self._entry), src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._touched.add(self._entry.folder)
        self._close()

    def _prove(self, written: str) -> None:
        """What was written is what was brought, and that is what the source says that it has."""
        size = os.fstat(self._reader).st_size
        if (size, written) != (self._tally.size, self._tally.sha256):
            raise VerificationError(
                within(self._path, self._entry.name),
                "other bytes are in the file than were written",
                expected_size=self._tally.size,
                actual_size=size,
                expected_digest=self._tally.sha256,
                actual_digest=written,
            )
        algorithm = self._order.algorithm
        known = self._tally.cksum if algorithm == "cksum" else written
        told = self._order.sum_of(self._entry, algorithm)
        if size != self._entry.size or (algorithm != "none" and known != told):
            raise changed(self._path, self._entry)

    def link(self, entry: Entry) -> None:
        """Make a symbolic link, in place of a file or another link."""
        with naming(within(self._path, entry.name)):
            folder = self._folders.at(entry.folder)
            os.symlink(encode_lossless(entry.target or ""), self._temp, dir_fd=folder)
            try:
                os.rename(self._temp, _base(entry), src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(self._temp, dir_fd=folder)
                raise
        self._touched.add(entry.folder)

    def sync(self) -> None:
        """Bring the names to the disk."""
        if not self._order.durable:
            return
        for name in sorted(self._touched):
            with suppress(OSError):
                # Some file systems cannot do this for folders.
                os.fsync(self._folders.at(name))

    def abandon(self) -> None:
        """No more comes; what is unfinished goes."""
        if self._folder < 0:
            return
        self._behind.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temp, dir_fd=self._folder)
        self._close()

    def _close(self) -> None:
        for fd in (self._writer, self._reader, self._folder):
            if fd >= 0:
                os.close(fd)
        self._writer = self._reader = self._folder = -1


def _hand_over(files: Sequence[Entry], read: Callable[[Entry], Iterator[bytes]], sink: Sink) -> None:
    for entry in files:
        sink.begin(entry)
        for chunk in read(entry):
            sink.body(chunk)
        sink.end()


def _base(entry: Entry) -> bytes:
    return encode_lossless(entry.name.rpartition("/")[2])


def _is_closed(found: dict[str, Entry], folder: str) -> bool:
    """Whether the folder is missing, or is something else: what a link leads to is not looked at."""
    return folder not in found or found[folder].kind != "directory"


def _entries(fd: int, prefix: str) -> Iterator[Entry]:
    for name in sorted(os.fsencode(name) for name in os.listdir(fd)):
        with suppress(FileNotFoundError):
            # It may have gone since its name was read.
            yield _entry(fd, prefix + decode_lossless(name))


def _entry(fd: int, name: str) -> Entry:
    base = encode_lossless(name.rpartition("/")[2]) or b"."
    state = os.stat(base, dir_fd=fd, follow_symlinks=False)
    link = stat.S_ISLNK(state.st_mode)
    target = decode_lossless(os.readlink(base, dir_fd=fd)) if link else None
    return Entry(name, kind_of(state.st_mode), state.st_size, stat.S_IMODE(state.st_mode), target)


def _make_folder(fd: int, entry: Entry) -> None:
    os.mkdir(_base(entry), 0o700, dir_fd=fd)
    made = os.open(_base(entry), _DIRECTORY, dir_fd=fd)
    try:
        os.fchmod(made, entry.mode)
    finally:
        os.close(made)


def _set_mode(folders: Folders, entry: Entry) -> None:
    if entry.kind == "directory":
        os.fchmod(folders.at(entry.name), entry.mode)
        return
    fd = os.open(_base(entry), _CONTENT, dir_fd=folders.at(entry.folder))
    try:
        os.fchmod(fd, entry.mode)
    finally:
        os.close(fd)


def _exactly(fd: int, size: int) -> Iterator[bytes]:
    """So many bytes.

    Raises:
        EOFError: There are fewer.
    """
    left = size
    while left:
        chunk = os.read(fd, min(left, CHUNK))
        if not chunk:
            raise EOFError
        left -= len(chunk)
        yield chunk
