"""`env.files`: bytes in, bytes out, and the proof that they are the same."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from hermes_env._errors import InvalidArgument
from hermes_env._validate import check_size

from . import _checks, _single, _tree
from ._types import (
    Change,
    FileStat,
    HardLinks,
    MakeDir,
    Move,
    Remove,
    Survey,
    Swept,
    TransferResult,
    Write,
    WriteResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes_env._base import BaseEnvironment
    from hermes_env._launch import StdinLike

    from ._engine import Engine
    from ._native import NativeEngine


class Files:
    """Files of one environment. Thread-safe.

    Paths are text; bytes that are not UTF-8 are surrogate escapes, as `os.fsdecode` makes them. Relative paths start
    at the environment's directory. ``~``, ``$`` and globs are plain characters. Errors of the file system are the
    builtin `OSError` family with errno and the caller's path.
    """

    def __init__(self, env: BaseEnvironment, engine: Engine | None = None) -> None:
        if engine is None:
            from ._remote import ScriptEngine

            engine = ScriptEngine(env)
        self._env, self._carrier = env, engine
        self._conditional = threading.Lock()

    @property
    def _engine(self) -> Engine:
        """What carries out every operation, as long as the environment is open; `EnvironmentGone` otherwise."""
        self._env._life.require_usable()  # noqa: SLF001 - one framework
        return self._carrier

    # -- contents -------------------------------------------------------------------------------------------------

    def write_bytes(
        self,
        path: str,
        data: StdinLike,
        *,
        mode: int | None = None,
        make_parents: bool = False,
        if_sha256: str | None = None,
        hardlinks: HardLinks = "keep",
        durable: bool = True,
    ) -> WriteResult:
        """Give a file new bytes: all of them, checked, or none.

        The bytes go into a private file beside the target, whose size and digest are compared with those of the
        caller's bytes before it replaces the target. Mode and owner are kept, symbolic links (at most 40) followed.

        Args:
            path: A regular file, or a name for a new one.
            data: Bytes, a binary file or an iterable of bytes; only a few chunks are held in memory.
            mode: Permission bits; None keeps those of an existing file and leaves a new one to the umask.
            make_parents: Make missing directories above it.
            if_sha256: Only when the file holds bytes of this digest now.
            hardlinks: What to do when the file has several names: ``keep`` writes in place, so that all names see
                the new bytes; ``break`` gives only this name the new bytes; ``refuse`` raises.
            durable: Ask the system to bring file and directory to the disk before this returns.

        Raises:
            InvalidArgument: Nothing ran.
            OSError: The file is as it was.
            FileChanged: `if_sha256` does not hold.
            VerificationError: Other bytes arrived than were sent; the file is as it was.
            Unsupported: `if_sha256` where nothing in the environment computes SHA-256.
            HermesEnvError: As `BaseEnvironment.exec`.
        """
        change = Write(
            path=path,
            data=data,
            mode=mode,
            make_parents=make_parents,
            if_sha256=if_sha256,
            hardlinks=hardlinks,
        )
        result = self.commit([change], durable=durable)[0]
        assert result is not None
        return result

    def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file, checked by length and digest.

        Args:
            path: The file.
            offset: Bytes to leave out at the start; over the end gives no bytes.
            limit: Bytes to read at most.

        Raises:
            OSError: There is no such regular file, or it cannot be read.
            FileChanged: Its bytes changed while they were read. A file that only grew is read up to its old end.
            HermesEnvError: As `BaseEnvironment.exec`.
        """
        _checks.checked_path("path", path)
        check_size("offset", offset)
        if limit is not None:
            check_size("limit", limit)
        return self._engine.read(path, offset, limit)

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of a regular file in chunks; the file is never held in memory.

        Nothing that was read is to be trusted before the iteration ended without an error.

        Raises:
            OSError, FileChanged, HermesEnvError: As `read_bytes`, from the iteration.
        """
        _checks.checked_path("path", path)
        self._env._life.require_usable()  # noqa: SLF001 - one framework
        return self._chunks(path)

    def _chunks(self, path: str) -> Iterator[bytes]:
        yield from self._engine.chunks(path)

    def read_many(self, paths: Sequence[str], *, missing_ok: bool = False) -> dict[str, bytes]:
        """The bytes of many files, in one round trip where the environment allows.

        Args:
            paths: Regular files.
            missing_ok: Leave out files that do not exist, instead of raising.

        Raises:
            OSError, FileChanged, HermesEnvError: As `read_bytes`, for the first file that fails.
        """
        unique = tuple(dict.fromkeys(_checks.checked_path("paths", path) for path in paths))
        return self._engine.read_many(unique, missing_ok=missing_ok)

    def survey(self, paths: Sequence[str], *, most: int | None = None) -> Survey:
        """Tell what many paths name, links followed, in one round trip where the environment allows.

        Args:
            paths: Any paths. What is wrong with one stands in its entry.
            most: Also bring the bytes of regular files of at most so many bytes; larger ones have the error EFBIG.
                None brings digests only.

        Raises:
            HermesEnvError: As `BaseEnvironment.exec`.
        """
        unique = tuple(dict.fromkeys(_checks.checked_path("paths", path) for path in paths))
        if most is not None:
            check_size("most", most)
        return self._engine.survey(unique or (".",), most)

    def sweep(self, directories: Sequence[str], *, below: bool = False, backups: bool = False) -> Swept:
        """Remove temporary files that commits left whose process is surely dead, and name those that have to stay.

        Args:
            directories: Where to look.
            below: Look in all directories below them too.
            backups: Remove also copies of old bytes: only for who knows that they are needed no more.

        Raises:
            HermesEnvError: As `BaseEnvironment.exec`.
        """
        checked = tuple(dict.fromkeys(_checks.checked_path("directories", path) for path in directories))
        return self._engine.sweep(checked, below=below, backups=backups)

    def sha256(self, path: str) -> str:
        """Hex digest of a regular file, computed in the environment where it has any tool for that.

        Raises:
            OSError, HermesEnvError: As `read_bytes`.
        """
        return self._engine.sha256(_checks.checked_path("path", path))

    # -- to and from this machine ---------------------------------------------------------------------------------

    def upload(
        self,
        local: str | os.PathLike[str],
        remote: str,
        *,
        mode: int | None = None,
        make_parents: bool = False,
        durable: bool = True,
        progress: Callable[[int], None] | None = None,
        expect: Callable[[int], None] | None = None,
    ) -> TransferResult:
        """Copy a file or folder of this machine into the environment.

        A file is written as `write_bytes` does. A folder's content is added to the folder `remote`, which is made
        when it is missing: files replace files and links, links stay links, modes and empty folders are kept, FIFOs,
        sockets and devices are named in the result. Files that are there with the same bytes are not sent again, so
        that a copy that broke off goes on where it was. New files belong to the acting user. A file has its new
        bytes as a whole or not at all; the folder as a whole is not changed in one step.

        Args:
            local: A regular file or a folder here; contents are never held in memory.
            remote: The file or folder there.
            mode: Permission bits of a file; None keeps those of an existing file and leaves a new one to the umask.
            make_parents: Make missing directories above it.
            durable: See `write_bytes`.
            progress: Called with the bytes sent so far.
            expect: Called once, with the bytes that will be sent.

        Raises:
            InvalidArgument: Nothing ran.
            OSError: One of the files, by its path as given; a folder and a file stand in each other's place.
            FileChanged: A local file changed while it was read.
            HermesEnvError: As `write_bytes`.
        """
        source = _checks.checked_path("local", os.fspath(local))
        native = _native_engine(None)
        wishes = _tree.Wishes(durable=durable, make_parents=make_parents, progress=progress, expect=expect)
        if os.path.isdir(source):
            if mode is not None:
                raise InvalidArgument("mode", "is for a single file; a folder's files keep their own")
            _checks.checked_path("remote", remote)
            return _tree.upload(native.tree(source), self._engine.tree(remote), wishes)
        _checks.file_path("remote", remote)
        same = _single.already_there(native, source, self._engine, remote, _checks.check_mode(mode))
        if expect is not None and os.path.isfile(source):
            expect(os.path.getsize(source) if same is None else 0)
        if same is not None:
            return same
        data = _tree.Meter(wishes, ()).passing(native.chunks(source))
        return _tree.single(self.write_bytes(remote, data, mode=mode, make_parents=make_parents, durable=durable))

    def download(
        self,
        remote: str,
        local: str | os.PathLike[str],
        *,
        durable: bool = True,
        progress: Callable[[int], None] | None = None,
        expect: Callable[[int], None] | None = None,
    ) -> TransferResult:
        """Copy a file or folder of the environment to this machine.

        A file arrives whole and checked, or not at all. A folder is copied as `upload` does it. Nothing that the
        environment says is trusted: no name and no link leads out of `local`, and set-user-id, set-group-id and
        sticky bits are left out. Links arrive as they are; what they lead to is for the reader to mind.

        Args:
            remote: A regular file or a folder there; contents are never held in memory.
            local: The file or folder here.
            durable: See `write_bytes`.
            progress: Called with the bytes received so far.
            expect: Called once, with the bytes that will be received, when a folder is copied.

        Raises:
            OSError: One of the files, by its path as given.
            FileChanged, HermesEnvError: As `read_chunks`; the local file is as it was.
            TransportError: The environment named something that can be no part of the folder.
        """
        target = _checks.checked_path("local", os.fspath(local))
        _checks.checked_path("remote", remote)
        wishes = _tree.Wishes(durable=durable, progress=progress, expect=expect)
        if not _tree.names_folder(target):
            try:
                return self._download_file(remote, target, wishes)
            except _tree.IsFolder:
                pass
        return _tree.download(self._engine.tree(remote), _native_engine(None).tree(target), wishes)

    def _download_file(self, remote: str, target: str, wishes: _tree.Wishes) -> TransferResult:
        native = _native_engine(None)
        same = _single.already_there(self._engine, remote, native, target)
        return same or _single.receive(self.read_chunks(remote), native, target, wishes)

    # -- names ----------------------------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        """Whether something has this name; False for a symbolic link that leads nowhere.

        Raises:
            PermissionError: That cannot be seen.
        """
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Kind, size, mode and owner of a file.

        Args:
            path: Any file.
            follow: For a symbolic link, describe what it leads to.

        Raises:
            OSError: Nothing has this name.
        """
        return self._engine.stat(_checks.checked_path("path", path), follow=follow)

    def list_dir(self, path: str) -> list[FileStat]:
        """What a directory holds, hidden files too, in the order of the names' bytes; links are not followed.

        Raises:
            OSError: It is no directory, or cannot be read.
        """
        return self._engine.list_dir(_checks.checked_path("path", path))

    def make_dir(self, path: str, *, parents: bool = False) -> None:
        """Make a directory.

        Args:
            path: Its name.
            parents: Make missing parents too, and accept a directory that exists.

        Raises:
            OSError: It cannot be made; `FileExistsError` when something has this name.
        """
        self.commit([MakeDir(path=path, parents=parents)])

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a symbolic link (never its target) or a directory.

        Args:
            path: What to remove.
            recursive: Remove a directory with all that is in it; otherwise it must be empty.

        Raises:
            OSError: It does not exist or cannot be removed.
        """
        self.commit([Remove(path=path, recursive=recursive)])

    def move(self, src: str, dst: str, *, overwrite: bool = False) -> None:
        """Give a file or directory another name; symbolic links are moved as such.

        Args:
            src: The old name.
            dst: The new name itself, also when a directory has it: nothing is moved into it.
            overwrite: Replace what has the new name: a file, or an empty directory by a directory.

        Raises:
            OSError: Nothing was moved.
        """
        self.commit([Move(path=src, dst=dst, overwrite=overwrite)])

    # -- batches --------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], *, durable: bool = True) -> tuple[WriteResult | None, ...]:
        """Apply all changes or none: prepare and verify all, then swap, check, and put all back if one fails.

        Directories are made first to last while preparing, so a later change may write into one. No path may occur
        twice.

        Returns:
            One `WriteResult` for each `Write`, None for other changes, in order.

        Raises:
            InvalidArgument, OSError, FileChanged, VerificationError, Unsupported, HermesEnvError: As `write_bytes`;
                nothing is changed.
            RollbackFailed: A change failed and what was done could not be put back; ``.paths`` says where.
        """
        engine, checked = self._engine, _checks.check_changes(changes)
        if not checked:
            return ()
        if any(_checks.conditional(change) for change in checked):
            # Two threads that both saw the old digest: the second one must see the first one's bytes.
            with self._conditional:
                return engine.commit(checked, durable=durable)
        return engine.commit(checked, durable=durable)


def _native_engine(env: BaseEnvironment | None) -> NativeEngine:
    """Operations on this machine, relative to the environment's directory or to the process's own."""
    from ._native import NativeEngine

    return NativeEngine(lambda: None if env is None else env.cwd)


class NativeFiles(Files):
    """Files of this machine by its own system calls, for environments that share its file system."""

    def __init__(self, env: BaseEnvironment) -> None:
        super().__init__(env, _native_engine(env))
