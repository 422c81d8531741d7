"""What a batch of archive writes holds on this machine until all of it is done: contents, and old bytes."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from hermes_env import RollbackFailed

if TYPE_CHECKING:
    from hermes_env import Change

IN_MEMORY = 1 << 20
"""Bytes of a content or backup held in memory; more lies in a nameless file of this machine."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A file's bytes on this machine, and what stands in its entry."""

    info: tarfile.TarInfo
    bytes: IO[bytes]
    sha256: str


@dataclass(frozen=True, slots=True)
class Undo:
    """How one change is taken back: the old bytes again; None when there was nothing, which no archive can restore."""

    change: Change
    real: str
    old: Copy | None


class Batch(contextlib.ExitStack):
    """Changes that belong together: what was done, and the copies that are held until all is."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Undo] = []

    def keep(self, chunks: Iterator[bytes], info: tarfile.TarInfo) -> Copy:
        """Hold bytes on this machine; their number goes into the entry."""
        held = self.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115 - entered here
        digest = hashlib.sha256()
        for chunk in chunks:
            digest.update(chunk)
            held.write(chunk)
        info.size = held.tell()
        return Copy(info, held, digest.hexdigest())


def rollback_failed(lost: Sequence[Undo]) -> RollbackFailed:
    """The error, with the old bytes in files of this machine: nothing else has them any more."""
    error = RollbackFailed(tuple(dict.fromkeys(undo.change.path for undo in lost)))
    for undo in lost:
        if undo.old is None:
            error.add_note(f"{undo.real} is new and may be there: archives cannot remove it")
            continue
        undo.old.bytes.seek(0)
        with tempfile.NamedTemporaryFile(prefix="hermes-env-old-", delete=False) as kept:
            shutil.copyfileobj(undo.old.bytes, kept)
        error.add_note(f"the old bytes of {undo.real} are in {kept.name} on this machine")
    return error
