"""One change on this machine: prepared, applied, and taken back if a later one fails."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, Protocol

from hermes_env._codec import encode_lossless
from hermes_env._errors import FileChanged

from . import _native_paths as paths
from ._native_expect import Expectation, require_straight
from ._native_io import digest_of, naming
from ._oserror import os_error

if TYPE_CHECKING:
    from ._types import MakeDir, Move, Remove, Symlink


class Step(Protocol):
    """A change in the making. `undo` works in any state and says whether everything is as it was."""

    path: str

    def prepare(self) -> None:
        """Check and stage; the file system shows nothing of it yet."""

    def apply(self) -> None:
        """Make it visible."""

    def undo(self) -> bool:
        """Take it back; False when that failed."""

    def finish(self) -> None:
        """Let go of what was kept for `undo`."""


class Batch:
    """What the steps of one commit share."""

    def __init__(self, mark: bytes, *, alone: bool, durable: bool) -> None:
        self.alone = alone
        """The only change: nothing that follows can fail, so nothing has to be kept for an undo."""
        self.durable = durable
        self._mark = mark
        self._count = 0

    def beside(self, path: bytes, suffix: bytes) -> bytes:
        """A fresh name in the directory of `path`."""
        self._count += 1
        name = self._mark + str(self._count).encode() + suffix
        return os.path.join(os.path.dirname(path), name)

    def sync(self, *files: bytes) -> None:
        """Bring the names of these files to the disk, when that was asked for."""
        if self.durable:
            for directory in {os.path.dirname(file) for file in files}:
                paths.sync_directory(directory)


def keep_backup(name: bytes, batch: Batch) -> bytes:
    """A second name for what is there, so that it can be put back."""
    backup = batch.beside(name, b".bak")
    try:
        os.link(name, backup, follow_symlinks=False)
    except OSError:
        shutil.copy2(name, backup, follow_symlinks=False)
    return backup


class RemoveStep:
    """Removes a file, a link or a directory; in a batch it is only renamed until all is done."""

    def __init__(self, change: Remove, name: bytes, batch: Batch) -> None:
        self.path = change.path
        self._change, self._name, self._batch = change, name, batch
        self._expected = Expectation(change.if_sha256)
        self._aside: bytes | None = None
        self._directory = False

    def prepare(self) -> None:
        with naming(self.path):
            self._directory = stat.S_ISDIR(os.lstat(self._name).st_mode)
            if self._change.path.endswith("/") and not self._directory:
                raise os_error(errno.ENOTDIR, self.path)
            if self._directory and not self._change.recursive:
                require_empty(self._name, self.path)
            self._check_way()
            self._expected.check(self._name, self.path)

    def _check_way(self) -> None:
        if self._change.real:
            require_straight(self.path, self._name)

    def apply(self) -> None:
        with naming(self.path):
            self._check_way()
            self._expected.recheck(self._name, self.path)
            if not self._batch.alone:
                aside = self._batch.beside(self._name, b".bak")
                os.rename(self._name, aside)
                self._aside = aside
            else:
                self._erase(self._name)
            self._batch.sync(self._name)

    def _erase(self, name: bytes) -> None:
        if not self._directory:
            os.unlink(name)
        elif self._change.recursive:
            shutil.rmtree(name)
        else:
            os.rmdir(name)

    def undo(self) -> bool:
        return self._aside is None or renamed(self._aside, self._name)

    def finish(self) -> None:
        if self._aside is not None:
            with naming(self.path):
                self._erase(self._aside)


class MoveStep:
    """Renames; a file that goes to another file system is copied, checked and then removed."""

    def __init__(self, change: Move, name: bytes, dst: bytes, batch: Batch) -> None:
        self.path = change.path
        self._change, self._name, self._dst, self._batch = change, name, dst, batch
        self._expected = Expectation(change.if_sha256)
        self._backup: bytes | None = None
        self._emptied = False
        self._moved = False
        self._onto_itself = False

    def prepare(self) -> None:
        with naming(self.path):
            source = os.lstat(self._name)
            if self.path.endswith("/") and not stat.S_ISDIR(source.st_mode):
                raise os_error(errno.ENOTDIR, self.path)
        with naming(self._change.dst):
            os.stat(os.path.join(os.path.dirname(self._dst), b"."))
            self._check_dst(source)
        with naming(self.path):
            self._check_way()
            self._expected.check(self._name, self.path)

    def _check_way(self) -> None:
        if self._change.real:
            require_straight(self.path, self._name, self._dst)

    def _check_dst(self, source: os.stat_result) -> None:
        target = paths.lstat_or_none(self._dst)
        if target is None:
            return
        if not self._change.overwrite:
            raise os_error(errno.EEXIST, self._change.dst)
        self._onto_itself = paths.entry_of(self._name) == paths.entry_of(self._dst)
        if self._onto_itself:
            return
        into, of = stat.S_ISDIR(target.st_mode), stat.S_ISDIR(source.st_mode)
        if into != of:
            raise os_error(errno.EISDIR if into else errno.ENOTDIR, self._change.dst)
        if into:
            require_empty(self._dst, self._change.dst)

    def apply(self) -> None:
        with naming(self.path):
            self._check_way()
            self._expected.recheck(self._name, self.path)
            if self._onto_itself:
                return
        with naming(self._change.dst):
            target = paths.lstat_or_none(self._dst)
            if target is not None and stat.S_ISDIR(target.st_mode):
                os.rmdir(self._dst)
                self._emptied = True
            elif target is not None and not self._batch.alone:
                self._backup = keep_backup(self._dst, self._batch)
        with naming(self.path):
            self._rename()
            self._moved = True
            self._batch.sync(self._name, self._dst)

    def _rename(self) -> None:
        try:
            os.rename(self._name, self._dst)
            if _is_left(self._name, self._dst):
                os.unlink(self._name)
        except OSError as error:
            if error.errno != errno.EXDEV or stat.S_ISDIR(os.lstat(self._name).st_mode):
                raise
            carry_over(self._name, self._dst, self._batch, self._change.dst)

    def undo(self) -> bool:
        whole = True
        if self._moved:
            whole = renamed(self._dst, self._name)
        if self._emptied:
            whole = _remade(self._dst) and whole
        if self._backup is not None:
            whole = renamed(self._backup, self._dst) and whole
        return whole

    def finish(self) -> None:
        discard(self._backup)


def _is_left(name: bytes, dst: bytes) -> bool:
    """Whether a rename did nothing, as POSIX wants it when both are names of one file."""
    state = paths.lstat_or_none(name)
    if state is None or state.st_nlink < 2 or not os.path.samestat(state, os.lstat(dst)):
        return False
    # Where letters differ in case only, the system may know one name and show it for both.
    directory, last = os.path.split(name)
    return last in os.listdir(directory or b".")


def carry_over(name: bytes, dst: bytes, batch: Batch, path: str) -> None:
    """Move a file or link to another file system: the copy is checked before the original goes."""
    temp = batch.beside(dst, b".tmp")
    try:
        shutil.copy2(name, temp, follow_symlinks=False)
        if not os.path.islink(name):
            _check_copy(name, temp, path, durable=batch.durable)
        os.rename(temp, dst)
    except BaseException:
        discard(temp)
        raise
    os.unlink(name)


def _check_copy(name: bytes, copy: bytes, path: str, *, durable: bool) -> None:
    old = os.lstat(name)
    with open(copy, "rb+") as file:
        paths.take_over(file.fileno(), name, old)
        os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        if durable:
            os.fsync(file.fileno())
    if digest_of(copy) != digest_of(name):
        raise FileChanged(path, "the copy on the other file system differs")


class MakeDirStep:
    """Makes a directory, while preparing: a later change of the batch may write into it."""

    def __init__(self, change: MakeDir, name: bytes) -> None:
        self.path = change.path
        self._change, self._name = change, name
        self._made: list[bytes] = []

    def prepare(self) -> None:
        with naming(self.path):
            if self._change.parents and os.path.isdir(self._name):
                return
            if paths.lexists(self._name):
                raise os_error(errno.EEXIST, self.path)
            if self._change.parents:
                self._made = paths.make_parents(self._name)
            else:
                os.mkdir(self._name)
                self._made = [self._name]

    def apply(self) -> None:
        """It is there already."""

    def undo(self) -> bool:
        paths.remove_dirs(self._made)
        return not any(paths.lexists(name) for name in self._made)

    def finish(self) -> None:
        """Nothing was kept."""


class SymlinkStep:
    """Makes a symbolic link."""

    def __init__(self, change: Symlink, name: bytes, batch: Batch) -> None:
        self.path = change.path
        self._change, self._name, self._batch = change, name, batch
        self._made = False

    def prepare(self) -> None:
        with naming(self.path):
            os.stat(os.path.join(os.path.dirname(self._name), b"."))
            self._check()

    def _check(self) -> None:
        if self._change.real:
            require_straight(self.path, self._name)
        if paths.lexists(self._name):
            raise os_error(errno.EEXIST, self.path)
        if self._change.path.endswith("/"):
            raise os_error(errno.ENOENT, self.path)

    def apply(self) -> None:
        with naming(self.path):
            self._check()
            os.symlink(encode_lossless(self._change.target), self._name)
            self._made = True
            self._batch.sync(self._name)

    def undo(self) -> bool:
        if self._made and os.path.islink(self._name):
            discard(self._name)
            return not paths.lexists(self._name)
        return True

    def finish(self) -> None:
        """Nothing was kept."""


def require_empty(directory: bytes, path: str) -> None:
    """Raise ENOTEMPTY unless a directory holds nothing."""
    with os.scandir(directory) as entries:
        if next(entries, None) is not None:
            raise os_error(errno.ENOTEMPTY, path)


def renamed(old: bytes, new: bytes) -> bool:
    """Rename; False when it fails."""
    try:
        os.rename(old, new)
    except OSError:
        return False
    return True


def _remade(directory: bytes) -> bool:
    try:
        os.mkdir(directory)
    except OSError:
        return False
    return True


def discard(name: bytes | None) -> None:
    """Remove a temporary file that may be gone."""
    if name is None:
        return
    try:
        os.unlink(name)
    except OSError:
        return
