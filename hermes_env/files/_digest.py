"""Digests of bytes as they pass by: SHA-256, and the CRC of POSIX ``cksum`` for environments with nothing better."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class Cksum:
    """CRC and length as POSIX ``cksum`` prints them.

    POSIX feeds the most significant bit first, zlib the least significant: bytes are mirrored on the way in and the
    sum on the way out.
    """

    def __init__(self) -> None:
        self._crc = 0xFFFFFFFF
        self._size = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take a chunk."""
        self._crc = zlib.crc32(bytes(data).translate(_REVERSED), self._crc)
        self._size += len(data)

    def value(self) -> str:
        """The sum in decimal."""
        size, tail = self._size, bytearray()
        while size:
            tail.append(size & 0xFF)
            size >>= 8
        crc = zlib.crc32(bytes(tail).translate(_REVERSED), self._crc)
        return str(int(f"{crc:032b}"[::-1], 2))


class Tally:
    """Size and digests of the caller's bytes."""

    def __init__(self, *, with_cksum: bool = False, known: str | None = None) -> None:
        """Begin at nothing.

        Args:
            with_cksum: Compute the CRC too.
            known: SHA-256 of all that will be counted, where the caller has it: hashing 100 MiB takes 0.2 s.
        """
        self.size = 0
        self._known = known and known.lower()
        self._sha256 = hashlib.sha256()
        self._cksum = Cksum() if with_cksum else None

    def update(self, data: bytes | memoryview) -> None:
        """Take a chunk."""
        self.size += len(data)
        if self._known is None:
            self._sha256.update(data)
        if self._cksum is not None:
            self._cksum.update(data)

    def passing(self, chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """Chunks, counted as they go by."""
        for chunk in chunks:
            self.update(chunk)
            yield chunk

    @property
    def sha256(self) -> str:
        """Hex digest so far; of all, where that is known."""
        return self._known or self._sha256.hexdigest()

    @property
    def cksum(self) -> str:
        """POSIX CRC so far, in decimal; ``-`` when it is not computed."""
        return "-" if self._cksum is None else self._cksum.value()
