"""`env.files`: bytes in, bytes out, and the proof that they are the same."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol

from hermes_env._errors import InvalidArgument
from hermes_env._stdin import source_of
from hermes_env._validate import check_size

from . import _checks
from ._types import (
    Change,
    Expect,
    FileStat,
    HardLinks,
    MakeDir,
    Move,
    Remove,
    Survey,
    Swept,
    Write,
    WriteResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hermes_env._base import BaseEnvironment
    from hermes_env._launch import StdinLike

    from ._native import NativeEngine


class Engine(Protocol):
    """How file operations are carried out; arguments have been checked."""

    def commit(self, changes: Sequence[Change], *, durable: bool) -> tuple[WriteResult | None, ...]: ...

    def read(self, path: str, offset: int, limit: int | None) -> bytes: ...

    def chunks(self, path: str) -> Iterator[bytes]: ...

    def read_many(self, paths: Sequence[str], *, missing_ok: bool) -> dict[str, bytes]: ...

    def sha256(self, path: str) -> str: ...

    def stat(self, path: str, *, follow: bool) -> FileStat: ...

    def list_dir(self, path: str) -> list[FileStat]: ...

    def survey(self, paths: Sequence[str], most: int | None) -> Survey: ...

    def sweep(self, directories: Sequence[str], *, below: bool, backups: bool) -> Swept: ...


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
        self._engine = engine
        self._conditional = threading.Lock()

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
        return self._engine.chunks(path)

    def read_many(self, paths: Sequence[str], *, missing_ok: bool = False) -> dict[str, bytes]:
        """The bytes of many files, in one round trip where the environment allows.

        Args:
            paths: Regular files.
            missing_ok: Leave out files that do not exist, instead of raising.

        Raises:
            OSError, FileChanged, HermesEnvError: As `read_bytes`, for the first file that fails.
        """
        unique = tuple(dict.fromkeys(_checks.checked_path("paths", path) for path in paths))
        return self._engine.read_many(unique, missing_ok=missing_ok) if unique else {}

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
        return self._engine.sweep(checked, below=below, backups=backups) if checked else Swept((), ())

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
    ) -> WriteResult:
        """Copy a file of this machine into the environment, as `write_bytes` does.

        Args:
            local: A regular file here; it is never held in memory.
            remote: The file there.
            mode: Permission bits; None keeps those of an existing file and leaves a new one to the umask.
            make_parents: Make missing directories above it.
            durable: See `write_bytes`.
            progress: Called with the bytes sent so far.

        Raises:
            OSError: One of the files, by its path as given.
            HermesEnvError: As `write_bytes`.
        """
        engine = _native_engine(None)
        chunks = engine.chunks(_checks.checked_path("local", os.fspath(local)))
        data = _counted(chunks, progress)
        return self.write_bytes(remote, data, mode=mode, make_parents=make_parents, durable=durable)

    def download(
        self,
        remote: str,
        local: str | os.PathLike[str],
        *,
        durable: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> WriteResult:
        """Copy a file of the environment to this machine: whole and checked, or not at all.

        Args:
            remote: A regular file there; it is never held in memory.
            local: The file here; replaced in one step when all has arrived.
            durable: See `write_bytes`.
            progress: Called with the bytes received so far.

        Raises:
            OSError: One of the files, by its path as given.
            FileChanged, HermesEnvError: As `read_chunks`; the local file is as it was.
        """
        target = _checks.file_path("local", os.fspath(local))
        change = Write(path=target, data=_counted(self.read_chunks(remote), progress))
        result = _native_engine(None).commit([change], durable=durable)[0]
        assert result is not None
        return result

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
        checked = _checks.check_changes(changes)
        for change in checked:
            if isinstance(change, Write):
                _check_data(change.data)
        if not checked:
            return ()
        if any(_conditional(change) for change in checked):
            # Two threads that both saw the old digest: the second one must see the first one's bytes.
            with self._conditional:
                return self._engine.commit(checked, durable=durable)
        return self._engine.commit(checked, durable=durable)


def _native_engine(env: BaseEnvironment | None) -> NativeEngine:
    """Operations on this machine, relative to the environment's directory or to the process's own."""
    from ._native import NativeEngine

    return NativeEngine(lambda: None if env is None else env.cwd)


def _counted(chunks: Iterator[bytes], progress: Callable[[int], None] | None) -> Iterator[bytes]:
    """Chunks as they pass, with a report after each."""
    total = 0
    for chunk in chunks:
        yield chunk
        total += len(chunk)
        if progress is not None:
            progress(total)


def _check_data(data: StdinLike) -> None:
    if data is None:
        raise InvalidArgument("data", "is None; empty bytes make an empty file")
    source_of(data, "data")


def _conditional(change: Change) -> bool:
    return not isinstance(change, MakeDir | Expect) and bool(change.if_sha256 or getattr(change, "if_absent", False))


class NativeFiles(Files):
    """Files of this machine by its own system calls, for environments that share its file system."""

    def __init__(self, env: BaseEnvironment) -> None:
        super().__init__(env, _native_engine(env))
