"""Bytes from a download that nobody vouches for, checked block by block against digests made inside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

BLOCK = 4 << 20
"""Bytes of a block: they are held until its digest is known to be right, and each costs two processes inside."""


class Downloads(NamedTuple):
    """How an environment's files can be downloaded where they are.

    Attributes:
        smallest: Bytes from which that is better than printing the file.
        fetch: Downloads the file of an absolute path of plain ASCII. What it gives may end early, without an error.
    """

    smallest: int
    fetch: Callable[[str], Iterator[bytes]]


class BlockCheck:
    """Takes chunks of any size, and gives on those of blocks that are as they should be."""

    def __init__(self, size: int, sums: Sequence[str], give: Callable[[bytes], object]) -> None:
        """Begin at the first block.

        Args:
            size: Bytes of all blocks; what comes after them is dropped.
            sums: SHA-256 of each block.
            give: Gets the chunks of a block when the block is known to be right.
        """
        self.done = 0
        """Bytes that were given on: whole blocks."""
        self._size, self._sums, self._give = size, sums, give
        self._held: list[bytes] = []
        self._start_block()

    def _start_block(self) -> None:
        self._left = min(BLOCK, self._size - self.done)
        self._sum = hashlib.sha256()

    def feed(self, chunk: bytes) -> bool:
        """Take a chunk; False when the block at `done` is another one, or when this is more than there should be.

        At the end one more is waited for: a download that is read to its end leaves its connection usable.
        """
        while chunk and self._left:
            part, chunk = (chunk, b"") if len(chunk) <= self._left else (chunk[: self._left], chunk[self._left :])
            self._sum.update(part)
            self._held.append(part)
            self._left -= len(part)
            if not self._left and not self._end_block():
                return False
        return not chunk and (self._left > 0 or self.done == self._size)

    def _end_block(self) -> bool:
        index = self.done // BLOCK
        if index >= len(self._sums) or self._sum.hexdigest() != self._sums[index]:
            return False
        for part in self._held:
            self._give(part)
            self.done += len(part)
        self._held.clear()
        self._start_block()
        return True

    def feed_all(self, chunks: Iterable[bytes]) -> None:
        """Take chunks as long as they are wanted."""
        for chunk in chunks:
            if not self.feed(chunk):
                return
