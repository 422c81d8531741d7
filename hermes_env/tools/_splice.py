"""Edits as replaced byte ranges: what no range covers stays identical by construction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes ``start`` up to, not including, ``end`` become ``new``."""

    start: int
    end: int
    new: bytes


def apply_splices(data: bytes, splices: Sequence[Splice]) -> bytes:
    """Return ``data`` with ascending, disjoint ranges replaced."""
    view = memoryview(data)
    pieces: list[bytes | memoryview] = []
    position = 0
    for splice in splices:
        assert position <= splice.start <= splice.end <= len(data)
        pieces += (view[position : splice.start], splice.new)
        position = splice.end
    pieces.append(view[position:])
    return b"".join(pieces)


def reversed_splices(data: bytes, splices: Sequence[Splice]) -> tuple[Splice, ...]:
    """Return the splices that make ``data`` again from ``apply_splices(data, splices)``."""
    back: list[Splice] = []
    shift = 0
    for splice in splices:
        start = splice.start + shift
        back.append(Splice(start, start + len(splice.new), data[splice.start : splice.end]))
        shift += len(splice.new) - (splice.end - splice.start)
    return tuple(back)


@dataclass(frozen=True)
class Edit:
    """A computed edit of one file."""

    before: bytes
    splices: tuple[Splice, ...]
    """Ascending and disjoint; empty when nothing changes."""

    @cached_property
    def after(self) -> bytes:
        """The new content."""
        return apply_splices(self.before, self.splices)

    @cached_property
    def before_sha256(self) -> str:
        """Hex digest of the old content."""
        return sha256(self.before).hexdigest()

    @cached_property
    def after_sha256(self) -> str:
        """Hex digest of the new content."""
        return sha256(self.after).hexdigest()

    @property
    def changed(self) -> bool:
        """The new content differs from the old one."""
        return any(self.before[s.start : s.end] != s.new for s in self.splices) and self.after != self.before


def common_prefix(a: bytes, b: bytes) -> int:
    """Return how many bytes two texts share at the start; by halving, at memory speed."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: bytes, b: bytes, *, skip: int = 0) -> int:
    """Return how many bytes they share at the end, without the first ``skip`` of either."""
    low, high = 0, min(len(a), len(b)) - skip
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def single_splice(before: bytes, after: bytes) -> tuple[Splice, ...]:
    """Return the one range in which two contents differ, if they do."""
    if before == after:
        return ()
    head = common_prefix(before, after)
    tail = common_suffix(before, after, skip=head)
    return (Splice(head, len(before) - tail, after[head : len(after) - tail]),)
