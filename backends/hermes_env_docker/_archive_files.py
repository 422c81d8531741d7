"""Files of a container that has no shell: by the engine's archives, as far as these can keep the contract."""

from __future__ import annotations

import errno
import hashlib
import os
import tarfile
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from hermes_env import FileChanged, FileStat, Unsupported, VerificationError
from hermes_env.files import Expect, Files, MakeDir, Move, Write, WriteResult

from ._archive import CHUNK, Archive
from ._archive_batch import IN_MEMORY, Batch, Copy, Undo, rollback_failed
from ._client import engine_errors
from ._owner_ids import owner_ids

if TYPE_CHECKING:
    from docker import APIClient

    from hermes_env import BaseEnvironment, Change, StdinLike

_NEW_FILE, _NEW_DIRECTORY = 0o644, 0o755
"""Modes where nothing tells another: there is no process inside whose umask would count."""
_KINDS: dict[bytes, Literal["file", "directory", "symlink", "fifo", "char", "block"]] = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "symlink",
    tarfile.LNKTYPE: "file",
    tarfile.FIFOTYPE: "fifo",
    tarfile.CHRTYPE: "char",
    tarfile.BLKTYPE: "block",
}


def archive_files(env: BaseEnvironment, api: APIClient, container: str) -> Files:
    """Files of a container without a shell.

    Raises:
        EnvironmentGone, BackendUnavailable: The container cannot be asked.
    """
    with engine_errors(f"container {container[:12]}"):
        config = api.inspect_container(container)["Config"]
    cwd = env.cwd if env.cwd is not None and env.cwd.startswith("/") else config["WorkingDir"] or "/"
    owner = env.options.user or config["User"] or "0"
    return Files(env, ArchiveEngine(Archive(api, container), cwd=cwd, owner=owner))


class ArchiveEngine:
    """Reads and writes files without a program inside; what needs one is `Unsupported`, before anything is changed.

    A file is replaced, not in one step: its old bytes are kept on this machine until the new ones have been read back
    and compared. Other names of the file (hard links) keep the old bytes.
    """

    def __init__(self, archive: Archive, *, cwd: str, owner: str) -> None:
        self._archive, self._cwd, self._owner = archive, cwd, owner

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, limit: int | None) -> bytes:
        """A file or a part of it."""
        end = None if limit is None else offset + limit
        parts, place = [], 0
        for chunk in self.chunks(path):
            parts.append(chunk[max(0, offset - place) : None if end is None else max(0, end - place)])
            place += len(chunk)
        return b"".join(parts)

    def chunks(self, path: str) -> Iterator[bytes]:
        """A file as it arrives."""
        real = self._existing(path)
        with self._archive.members(real) as members:
            info, content = next(members)
            _require_file(info, path)
            yield from content

    def read_many(self, paths: Sequence[str], *, missing_ok: bool) -> dict[str, bytes]:
        """Files, one request each."""
        contents = {}
        for path in paths:
            try:
                contents[path] = self.read(path, 0, None)
            except (FileNotFoundError, NotADirectoryError):
                if not missing_ok:
                    raise
        return contents

    def sha256(self, path: str) -> str:
        """The digest of the bytes as read: nothing inside could compute it."""
        digest = hashlib.sha256()
        for chunk in self.chunks(path):
            digest.update(chunk)
        return digest.hexdigest()

    def stat(self, path: str, *, follow: bool) -> FileStat:
        """One file, from the head of its archive; the number of its names is not told there, and given as 1."""
        real = self._existing(path, follow=follow)
        with self._archive.members(real) as members:
            info, _ = next(members)
            return _stat(info, path)

    def list_dir(self, path: str) -> list[FileStat]:
        """One directory; the engine packs all that is below it, which is passed over."""
        real = self._existing(path)
        base, found = path.rstrip("/"), []
        with self._archive.members(real) as members:
            top, _ = next(members)
            if not top.isdir():
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            for info, _ in members:
                _, _, name = info.name.strip("/").partition("/") if top.name.strip("./") else ("", "", info.name)
                name = name.strip("/")
                if name and "/" not in name:
                    found.append(_stat(info, f"{base}/{name}"))
        return sorted(found, key=lambda entry: os.fsencode(entry.name))

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], *, durable: bool) -> tuple[WriteResult | None, ...]:  # noqa: ARG002
        """Write files and make directories, each checked by reading it back; all are put back when one fails."""
        for change in changes:
            self._refuse_what_needs_a_program(change)
        with Batch() as batch:
            try:
                return tuple(self._apply(change, batch) for change in changes)
            except BaseException as error:
                lost = [undo for undo in reversed(batch.done) if not self._put_back(undo)]
                if lost:
                    raise rollback_failed(lost) from error
                raise

    def _refuse_what_needs_a_program(self, change: Change) -> None:
        if not isinstance(change, Write | MakeDir | Expect):
            _unsupported(f"{change.path}: cannot be {'moved' if isinstance(change, Move) else 'removed'}")
        if isinstance(change, Write) and change.hardlinks == "refuse":
            _unsupported(f"{change.path}: its number of names cannot be told")

    def _apply(self, change: Change, batch: Batch) -> WriteResult | None:
        match change:
            case Write():
                return self._write(change, batch)
            case MakeDir():
                self._make_directory(change, batch)
            case Expect():
                self._expect(change)
        return None

    def _write(self, change: Write, batch: Batch) -> WriteResult:
        if change.make_parents:
            self._make_directories(os.path.dirname(self._absolute(change.path)), change, batch)
        real = self._real(change.path)
        if change.real and real != change.path:
            raise FileChanged(change.path, "a symbolic link is on the way to it")
        old = self._old(change, real, batch)
        new = batch.keep(_chunks(change.data), self._entry(change, real, old))
        batch.done.append(Undo(change, real, old))
        self._store(real, new)
        self._verify(change.path, real, new)
        return WriteResult(
            path=change.path,
            size=new.info.size,
            sha256=new.sha256,
            verified=True,
            verified_by="archive",
            created=old is None,
            atomic=False,
        )

    def _old(self, change: Write, real: str, batch: Batch) -> Copy | None:
        found = self._archive.look(real)
        if found is None:
            if change.if_sha256:
                raise FileChanged(change.path, "does not exist")
            return None
        if found.is_directory:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), change.path)
        if change.if_absent:
            raise FileChanged(change.path, "exists")
        old = self._fetch(real, change.path, batch)
        if change.if_sha256 and old.sha256 != change.if_sha256.lower():
            raise FileChanged(change.path, f"holds other bytes than expected: its sha256 is {old.sha256}")
        return old

    def _fetch(self, real: str, path: str, batch: Batch) -> Copy:
        with self._archive.members(real) as members:
            info, content = next(members)
            _require_file(info, path)
            return batch.keep(content, info)

    def _entry(self, change: Write, real: str, old: Copy | None) -> tarfile.TarInfo:
        info = tarfile.TarInfo(os.path.basename(real))
        info.mtime = int(time.time())
        if old is None:
            info.uid, info.gid = self._ids()
        else:
            info.uid, info.gid = old.info.uid, old.info.gid
        mode = _NEW_FILE if old is None else old.info.mode & 0o7777
        info.mode = mode if change.mode is None else change.mode
        return info

    def _store(self, real: str, copy: Copy) -> None:
        copy.bytes.seek(0)
        self._archive.put(os.path.dirname(real), iter([(copy.info, copy.bytes)]))

    def _verify(self, path: str, real: str, new: Copy) -> None:
        """Read back by another request what the engine unpacked."""
        digest, size = hashlib.sha256(), 0
        for chunk in self.chunks(real):
            digest.update(chunk)
            size += len(chunk)
        if (size, digest.hexdigest()) != (new.info.size, new.sha256):
            raise VerificationError(
                path,
                "other bytes arrived than were sent",
                expected_size=new.info.size,
                actual_size=size,
                expected_digest=new.sha256,
                actual_digest=digest.hexdigest(),
            )

    def _put_back(self, undo: Undo) -> bool:
        """Whether all is as it was; a new name cannot be removed by an archive."""
        try:
            if undo.old is None:
                return self._archive.look(undo.real) is None
            self._store(undo.real, undo.old)
            self._verify(undo.change.path, undo.real, undo.old)
        except Exception:  # noqa: BLE001 - reported as what could not be put back
            return False
        return True

    # -- directories ----------------------------------------------------------------------------------------------

    def _make_directory(self, change: MakeDir, batch: Batch) -> None:
        place = self._absolute(change.path)
        if change.parents:
            self._make_directories(place, change, batch)
            return
        real = self._real(place)
        if self._archive.look(real) is not None:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), change.path)
        self._make_one(real, change, batch)

    def _make_directories(self, place: str, change: Change, batch: Batch) -> None:
        parts = [part for part in place.split("/") if part]
        for count in range(1, len(parts) + 1):
            real = self._real("/" + "/".join(parts[:count]))
            found = self._archive.look(real)
            if found is None:
                self._make_one(real, change, batch)
            elif not found.is_directory:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), change.path)

    def _make_one(self, real: str, change: Change, batch: Batch) -> None:
        info = tarfile.TarInfo(os.path.basename(real))
        info.type, info.mode, info.mtime = tarfile.DIRTYPE, _NEW_DIRECTORY, int(time.time())
        info.uid, info.gid = self._ids()
        batch.done.append(Undo(change, real, None))
        self._archive.put(os.path.dirname(real), iter([(info, None)]))

    def _expect(self, change: Expect) -> None:
        try:
            now = self.sha256(change.path)
        except FileNotFoundError:
            now = None
        if now != (change.sha256 and change.sha256.lower()):
            raise FileChanged(change.path, f"is not as expected: its sha256 is {now}" if now else "does not exist")

    # -- names ----------------------------------------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._cwd.rstrip('/')}/{path}"

    def _real(self, path: str) -> str:
        return self._archive.real(self._absolute(path))

    def _existing(self, path: str, *, follow: bool = True) -> str:
        place = self._absolute(path)
        if follow or place.endswith("/"):
            real = self._archive.real(place)
        else:
            folder, _, name = place.rpartition("/")
            real = f"{self._archive.real(folder or '/').rstrip('/')}/{name}"
        if self._archive.look(real) is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real

    def _ids(self) -> tuple[int, int]:
        return owner_ids(self._owner, self._text)

    def _text(self, path: str) -> str:
        """What a file of accounts says; nothing where there is none."""
        try:
            return self.read(path, 0, IN_MEMORY).decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return ""

    # -- what needs a program -------------------------------------------------------------------------------------

    def survey(self, paths: Sequence[str], most: int | None) -> NoReturn:  # noqa: ARG002
        """Refused."""
        _unsupported("files cannot be surveyed")

    def sweep(self, directories: Sequence[str], *, below: bool, backups: bool) -> NoReturn:  # noqa: ARG002
        """Refused."""
        _unsupported("there is nothing to sweep")

    def tree(self, path: str) -> NoReturn:
        """Refused."""
        _unsupported(f"{path}: folders cannot be copied")


def _chunks(data: StdinLike) -> Iterator[bytes]:
    if isinstance(data, bytes | bytearray | memoryview):
        return iter([bytes(data)])
    if callable(read := getattr(data, "read", None)):
        return iter(lambda: read(CHUNK), b"")
    return iter(data)


def _unsupported(what: str) -> NoReturn:
    raise Unsupported(f"{what}: the container has no /bin/sh, and archives cannot do it")


def _require_file(info: tarfile.TarInfo, path: str) -> None:
    if info.isdir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not info.isreg():
        raise OSError(errno.EINVAL, "is no regular file", path)


def _stat(info: tarfile.TarInfo, path: str) -> FileStat:
    return FileStat(
        path=path,
        kind=_KINDS.get(info.type, "file"),
        size=info.size,
        mode=info.mode & 0o7777,
        uid=info.uid,
        gid=info.gid,
        mtime=float(info.mtime),
        nlink=1,
        target=info.linkname if info.issym() else None,
    )
