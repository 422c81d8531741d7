"""One verified write on this machine."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from hermes_env._errors import FileChanged, VerificationError
from hermes_env._stdin import source_of

from . import _native_paths as paths
from ._digest import Tally
from ._native_expect import Expectation, require_straight
from ._native_io import CHUNK, digest_of, naming, opened, require_regular, store, write_all
from ._native_lock import alone_in
from ._native_steps import Batch, discard, keep_backup, renamed
from ._oserror import not_replaceable, os_error
from ._temp_names import sweep
from ._types import Write, WriteResult

if TYPE_CHECKING:
    from collections.abc import Iterable

_REPLACED = "another writer replaced it right after it was written"
_WRITTEN = "another writer wrote into it at the same time"


class WriteStep:
    """Gives a file new bytes: staged beside it, verified, then renamed over it, or written in place."""

    def __init__(self, change: Write, name: bytes, batch: Batch) -> None:
        self.path = change.path
        self._change, self._name, self._batch = change, name, batch
        self._expected = Expectation(change.if_sha256, change.if_bytes)
        self._old: os.stat_result | None = None
        self._made: list[bytes] = []
        self._temp: bytes | None = None
        self._backup: bytes | None = None
        self._tally = Tally(known=change.sha256)
        self._staged: tuple[int, int, int] = (0, 0, 0)
        self._in_place = False
        self._state = "new"

    # -- prepare --------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        with naming(self.path):
            if self._change.real and os.path.islink(self._name):
                raise FileChanged(self.path, "is a symbolic link now")
            self._name = paths.resolve(self._name)
            self._old = paths.lstat_or_none(self._name)
            if self._old is not None:
                self._check_old(self._old)
            else:
                self._check_directory()
            self._check_way()
            self._expected.check(self._name, self.path)
            if self._change.if_absent and self._old is not None:
                raise os_error(errno.EEXIST, self.path)
            sweep(os.path.dirname(self._name) or b".")
        self._stage()

    def _check_way(self) -> None:
        if self._change.real:
            require_straight(self.path, self._name)

    def _check_old(self, old: os.stat_result) -> None:
        require_regular(old, self.path)
        if old.st_nlink > 1 and self._change.hardlinks == "refuse":
            raise os_error(errno.EMLINK, self.path, f"has {old.st_nlink} hard links")
        paths.require_writable(self._name, self.path)
        if old.st_nlink > 1 and self._change.hardlinks == "keep":
            self._go_in_place()

    def _go_in_place(self) -> None:
        """The file cannot be replaced.

        Raises:
            NotReplaceable: Nor may it be written in place.
        """
        if not self._change.allow_in_place:
            raise not_replaceable(self.path)
        self._in_place = True

    def _check_directory(self) -> None:
        directory = os.path.dirname(self._name) or b"."
        if self._change.make_parents and not paths.lexists(directory):
            self._made = paths.make_parents(directory)
        if not stat.S_ISDIR(os.stat(directory).st_mode):
            raise os_error(errno.ENOTDIR, self.path)

    def _stage(self) -> None:
        self._temp = temp = self._batch.beside(self._name, b".tmp")
        source = source_of(self._change.data, "data")
        chunks: Iterable[bytes | memoryview] = () if source is None else source.chunks
        size, digest = store(temp, chunks, self.path, self._tally)
        if (size, digest) != (self._tally.size, self._tally.sha256):
            raise self._damaged(size, digest)
        with naming(self.path), opened(temp, os.O_WRONLY) as fd:
            self._dress(fd)
            if self._batch.durable:
                os.fsync(fd)
            state = os.fstat(fd)
        self._staged = (state.st_dev, state.st_ino, state.st_size)

    def _dress(self, fd: int) -> None:
        """Mode and owner; what cannot be kept makes the write go in place."""
        mode, old = self._change.mode, self._old
        if old is None:
            mode = 0o666 & ~paths.umask() if mode is None else mode
            os.fchmod(fd, self._given(fd, mode))
            return
        if self._in_place:
            return
        if not paths.take_over(fd, self._name, old):
            self._go_in_place()
            return
        os.fchmod(fd, self._given(fd, stat.S_IMODE(old.st_mode) if mode is None else mode))

    def _given(self, fd: int, mode: int) -> int:
        """Give the new file its owner; the mode that it may have then: the rights of one are not those of another."""
        owner = self._change.owner
        return mode if owner is None or paths.give(fd, *owner) else mode & ~0o6000

    def places(self) -> list[tuple[object, ...]]:
        """What the write will change: a name in a directory, and with it a file that has other names."""
        with naming(self.path):
            found: list[tuple[object, ...]] = [paths.entry_of(self._name)]
        if self._in_place and self._old is not None:
            found.append((self._old.st_dev, self._old.st_ino))
        return found

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        with naming(self.path):
            self._check_way()
            self._expected.recheck(self._name, self.path)
            if self._in_place:
                self._overwrite()
                return
            if self._old is not None and not self._batch.alone:
                self._backup = keep_backup(self._name, self._batch)
            if not self._swap():
                self._go_in_place()
                self._overwrite()
                return
            self._state = "done"
            self._check_target()
            self._batch.sync(self._name)

    def _swap(self) -> bool:
        """Give the staged file the target's name; False when the target can only be written in place."""
        assert self._temp is not None
        if self._change.if_absent and self._link():
            return True
        try:
            os.rename(self._temp, self._name)
        except OSError as error:
            in_the_way = error.errno in (errno.EBUSY, errno.EPERM)
            if in_the_way and self._old is not None and os.path.isfile(self._name):
                return False
            raise
        self._temp = None
        return True

    def _link(self) -> bool:
        """Take the name only if nothing has it, in one step; False where hard links do not work."""
        assert self._temp is not None
        try:
            os.link(self._temp, self._name)
        except FileExistsError:
            raise os_error(errno.EEXIST, self.path) from None
        except OSError:
            if paths.lexists(self._name):
                raise os_error(errno.EEXIST, self.path) from None
            return False
        discard(self._temp)
        self._temp = None
        return True

    def _check_target(self) -> None:
        """What has the name must be the file that was verified; else its bytes are looked at."""
        try:
            state = os.lstat(self._name)
        except FileNotFoundError:
            raise FileChanged(self.path, _REPLACED) from None
        if (state.st_dev, state.st_ino, state.st_size) == self._staged:
            return
        try:
            self._verify_target()
        except VerificationError:
            if (state.st_dev, state.st_ino) == self._staged[:2]:
                raise
            raise FileChanged(self.path, _REPLACED) from None

    def _verify_target(self) -> None:
        digest, size = digest_of(self._name)
        if (size, digest) != (self._tally.size, self._tally.sha256):
            raise self._damaged(size, digest)

    def _overwrite(self) -> None:
        """Write over the old bytes, which are kept aside until the new ones are checked."""
        assert self._temp is not None
        discard(self._backup)
        self._backup = self._batch.beside(self._name, b".bak")
        with alone_in(self._name, self.path):
            self._expected.recheck(self._name, self.path)
            _copy_aside(self._name, self._backup, self.path)
            self._overwrite_alone(self._temp, self._backup)
        if self._change.mode is not None:
            os.chmod(self._name, self._change.mode)

    def _overwrite_alone(self, temp: bytes, backup: bytes) -> None:
        self._state = "dirty"
        try:
            _pour(temp, self._name, durable=self._batch.durable)
        except BaseException:
            # The lock is still held: what stands there is the part of our bytes that could be written.
            if not _begins(temp, self._name) or _put_back(backup, self._name):
                self._state = "restored"
            raise
        digest, size = digest_of(self._name)
        if (size, digest) != (self._tally.size, self._tally.sha256):
            self._state = "restored"
            raise FileChanged(self.path, _WRITTEN)

    def _damaged(self, size: int, digest: str) -> VerificationError:
        return VerificationError(
            self.path,
            "other bytes arrived than were sent",
            expected_size=self._tally.size,
            actual_size=size,
            expected_digest=self._tally.sha256,
            actual_digest=digest,
        )

    # -- end ------------------------------------------------------------------------------------------------------

    def undo(self) -> bool:
        discard(self._temp)
        whole = self._restore()
        paths.remove_dirs(self._made)
        return whole

    def _restore(self) -> bool:
        if self._state == "dirty":
            assert self._backup is not None
            return self._restore_bytes(self._backup)
        if self._state != "done":
            discard(self._backup)
            return True
        if not self._is_ours():
            # Another writer has taken the name meanwhile: what it wrote is not ours to undo.
            discard(self._backup)
            return True
        if self._old is None:
            discard(self._name)
            return not paths.lexists(self._name)
        return self._backup is None or renamed(self._backup, self._name)

    def _restore_bytes(self, backup: bytes) -> bool:
        """Put the old bytes back over ours; over those of another writer, who has verified them, never."""
        try:
            with alone_in(self._name, self.path):
                if digest_of(self._name) == (self._tally.sha256, self._tally.size):
                    return _put_back(backup, self._name)
        except (OSError, FileChanged):
            return False
        discard(backup)
        return True

    def _is_ours(self) -> bool:
        try:
            state = os.lstat(self._name)
        except OSError:
            return False
        return (state.st_dev, state.st_ino) == self._staged[:2]

    def finish(self) -> None:
        discard(self._temp)
        discard(self._backup)

    def result(self) -> WriteResult:
        """What came of it."""
        return WriteResult(
            path=self.path,
            size=self._tally.size,
            sha256=self._tally.sha256,
            verified=True,
            verified_by="native",
            created=self._old is None,
            atomic=not self._in_place,
        )


def _copy_aside(name: bytes, backup: bytes, path: str) -> None:
    """A private copy, checked against a second reading of the original."""
    with opened(name, os.O_RDONLY) as fd:
        chunks = iter(lambda: os.read(fd, CHUNK), b"")
        size, digest = store(backup, chunks, path, Tally())
    if digest_of(name) != (digest, size):
        discard(backup)
        raise FileChanged(path, "changed while it was backed up")


def _pour(source: bytes, target: bytes, *, durable: bool) -> None:
    """Replace the bytes of a file, and nothing else of it."""
    with opened(source, os.O_RDONLY) as read, opened(target, os.O_WRONLY | os.O_TRUNC) as write:
        while chunk := os.read(read, CHUNK):
            write_all(write, chunk)
        if durable:
            os.fsync(write)


def _begins(whole: bytes, part: bytes) -> bool:
    """Whether one file holds the beginning of another, or all of it."""
    try:
        with opened(whole, os.O_RDONLY) as ours, opened(part, os.O_RDONLY) as found:
            while piece := os.read(found, CHUNK):
                if os.read(ours, len(piece)) != piece:
                    return False
    except OSError:
        return True  # Nothing can be told: the old bytes are put back.
    return True


def _put_back(backup: bytes, target: bytes) -> bool:
    try:
        _pour(backup, target, durable=False)
        same = digest_of(backup) == digest_of(target)
    except OSError:
        return False
    if same:
        discard(backup)
    return same
