"""Copies of single files: what is there already is not sent again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import _tree
from ._types import TransferResult, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._engine import Engine


def already_there(source: Engine, name: str, dest: Engine, path: str, mode: int | None = None) -> TransferResult | None:
    """The result of a copy that need not be made, since the bytes are there; None when it has to be made.

    What cannot be looked at has to be tried: the copy itself says best what is wrong.
    """
    try:
        old, new = dest.stat(path, follow=True), source.stat(name, follow=True)
        # Files of /proc have no size, and contents: they are always copied, and an empty file costs nothing.
        if (old.kind, new.kind, old.size) != ("file", "file", new.size) or not old.size:
            return None
        if mode not in (None, old.mode) or dest.sha256(path) != source.sha256(name):
            return None
    except OSError:
        return None
    return TransferResult(
        path=path,
        files=0,
        size=0,
        unchanged=1,
        directories=0,
        links=0,
        skipped=(),
        verified=True,
        verified_by="sha256",
    )


def receive(chunks: Iterator[bytes], native: Engine, target: str, wishes: _tree.Wishes) -> TransferResult:
    """Write what comes into a file of this machine."""
    data = _tree.Meter(replace(wishes, expect=None), ()).passing(_tree.unless_folder(chunks))
    result = native.commit([Write(path=target, data=data)], durable=wishes.durable)[0]
    assert result is not None
    return _tree.single(result)
