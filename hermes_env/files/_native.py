"""File operations on this machine by system calls: the same behaviour as over scripts, without a shell."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env._errors import FileChanged, InvalidArgument, RollbackFailed

from ._native_expect import ExpectStep
from ._native_io import digest_of, naming, read_through, read_whole, require_regular, source
from ._native_steps import Batch, MakeDirStep, MoveStep, RemoveStep, Step, SymlinkStep
from ._native_survey import file_stat, surveyed
from ._native_write import WriteStep
from ._temp_names import new_mark, sweep_all
from ._tree_native import NativeTree
from ._types import Change, Expect, FileStat, MakeDir, Move, Remove, Survey, Swept, Symlink, Write, WriteResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TRIES = 3
"""Times that a file is read again when it changed while it was read."""


class NativeEngine:
    """File operations by the system calls of this machine."""

    def __init__(self, cwd: Callable[[], str | None]) -> None:
        self._cwd = cwd

    def _name(self, path: str) -> bytes:
        """The path as the system takes it; relative ones start at the environment's directory."""
        return os.path.join(encode_lossless(self._cwd() or "."), encode_lossless(path))

    # -- writing --------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], *, durable: bool) -> tuple[WriteResult | None, ...]:
        """Apply all changes or none."""
        batch = Batch(new_mark(), alone=len(changes) == 1, durable=durable)
        steps = [self._step(change, batch) for change in changes]
        try:
            for step in steps:
                step.prepare()
            _require_different([step for step in steps if isinstance(step, WriteStep)])
            for step in steps:
                step.apply()
        except BaseException as error:
            _take_back(steps, error)
            raise
        for step in steps:
            step.finish()
        return tuple(step.result() if isinstance(step, WriteStep) else None for step in steps)

    def _step(self, change: Change, batch: Batch) -> Step:
        match change:
            case Write():
                return WriteStep(change, self._name(change.path), batch)
            case Remove():
                return RemoveStep(change, self._name(change.path.rstrip("/")), batch)
            case Move():
                dst = self._name(change.dst.rstrip("/"))
                return MoveStep(change, self._name(change.path.rstrip("/")), dst, batch)
            case MakeDir():
                return MakeDirStep(change, self._name(change.path.rstrip("/")))
            case Symlink():
                return SymlinkStep(change, self._name(change.path.rstrip("/")), batch)
            case Expect():
                return ExpectStep(change, self._name(change.path.rstrip("/")))

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, limit: int | None) -> bytes:
        """A file or a part of it; read again when it changed meanwhile."""
        for _ in range(_TRIES - 1):
            try:
                return self._read_once(path, offset, limit)
            except FileChanged:
                continue
        return self._read_once(path, offset, limit)

    def _read_once(self, path: str, offset: int, limit: int | None) -> bytes:
        with source(self._name(path), path, offset, limit) as file:
            return read_whole(file, limit)

    def chunks(self, path: str) -> Iterator[bytes]:
        """A file in chunks."""
        with source(self._name(path), path, 0, None) as file, closing(read_through(file)) as chunks:
            yield from chunks

    def read_many(self, paths: Sequence[str], *, missing_ok: bool) -> dict[str, bytes]:
        """Files one after the other: there is no round trip to save."""
        contents: dict[str, bytes] = {}
        for path in paths:
            try:
                contents[path] = self.read(path, 0, None)
            except (FileNotFoundError, NotADirectoryError):
                if not missing_ok:
                    raise
        return contents

    def sha256(self, path: str) -> str:
        """Digest of a regular file."""
        name = self._name(path)
        with naming(path):
            require_regular(os.stat(name), path)
            return digest_of(name)[0]

    # -- surveys --------------------------------------------------------------------------------------------------

    def survey(self, paths: Sequence[str], most: int | None) -> Survey:
        """What paths name."""
        found = {path: surveyed(self._name(path), path, most, lambda path: self.read(path, 0, None)) for path in paths}
        return Survey(found, decode_lossless(os.environb.get(b"HOME", b"")), os.geteuid())

    def sweep(self, directories: Sequence[str], *, below: bool, backups: bool) -> Swept:
        """Remove what dead writers left."""
        removed: list[str] = []
        busy: list[str] = []
        for directory in directories:
            top = self._name(directory)
            for place in [top] if not below else [where for where, _, _ in os.walk(top)]:
                gone, held = sweep_all(place, backups=backups)
                removed += map(decode_lossless, gone)
                busy += map(decode_lossless, held)
        return Swept(tuple(removed), tuple(busy))

    # -- names ----------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, follow: bool) -> FileStat:
        """One file."""
        with naming(path):
            return file_stat(self._name(path), path, follow=follow)

    def list_dir(self, path: str) -> list[FileStat]:
        """One directory."""
        base = path.rstrip("/")
        found = []
        with naming(path):
            for name in sorted(os.listdir(self._name(path))):
                full = os.path.join(self._name(path), name)
                try:
                    found.append(file_stat(full, f"{base}/{decode_lossless(name)}", follow=False))
                except FileNotFoundError:
                    # It went away since its name was read.
                    continue
        return found

    def tree(self, path: str) -> NativeTree:
        """A folder, to be copied from or to."""
        return NativeTree(self._name(path), path)


def _require_different(writes: Sequence[WriteStep]) -> None:
    """Raise when two writes would go to one file.

    Raises:
        InvalidArgument: They would.
    """
    seen: set[tuple[object, ...]] = set()
    for step in writes if len(writes) > 1 else ():
        places = step.places()
        if not seen.isdisjoint(places):
            raise InvalidArgument("changes", f"write {step.path!r} more than once: it has another name too")
        seen.update(places)


def _take_back(steps: Sequence[Step], error: BaseException) -> None:
    """Undo, last change first.

    Raises:
        RollbackFailed: Some could not be undone.
    """
    lost = [step.path for step in reversed(steps) if not step.undo()]
    if lost:
        raise RollbackFailed(tuple(lost)) from error
