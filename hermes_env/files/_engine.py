"""What carries out file operations: system calls of this machine, or scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from . import _tree
    from ._types import Change, FileStat, Survey, Swept, WriteResult


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

    def tree(self, path: str) -> _tree.Tree: ...
