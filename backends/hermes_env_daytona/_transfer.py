"""Transfers: small files in one request over a kept connection, large ones as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ._connections import alone

POOLED = 4 << 20
"""Bytes up to which a stream is collected: the SDK makes a client for each stream, which takes 25 ms (0.226.1)."""
BATCH = 64 << 20
"""Bytes of one file in a request with others, when they are in memory. Nobody can stop it, so there is a limit."""
_STALL = 60
"""Seconds for each piece of a transfer: the SDK's own limit is 30 minutes."""


class Chunks:
    """An iterator of bytes as a file to read; the SDK asks for nothing but `read`."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = memoryview(chunk)
        end = len(self._rest) if size < 0 else size
        taken, self._rest = bytes(self._rest[:end]), self._rest[end:]
        return taken


def upload(fs: Any, path: str, chunks: Iterator[bytes]) -> None:
    """Send one file."""
    start = _take(chunks, POOLED)
    if sum(map(len, start)) <= POOLED:
        with alone(fs) as own:
            own.upload_file(b"".join(start), path, _STALL)
    else:
        fs.upload_file_stream(Chunks(chain(start, chunks)), path, _STALL)


def upload_many(sdk: Any, fs: Any, files: Sequence[tuple[str, bytes]]) -> None:
    """Send several files in one request; each is written or not by itself, and one that is not fails the request."""
    with alone(fs) as own:
        own.upload_files([sdk.FileUpload(source=content, destination=path) for path, content in files], _STALL)


def download(fs: Any, path: str) -> Iterator[bytes]:
    """A file as the service sends it: it ends early, without an error, where it holds the service's own boundary."""
    with alone(fs) as own:
        yield from own.download_file_stream(path, _STALL)


def _take(chunks: Iterator[bytes], limit: int) -> list[bytes]:
    """Chunks until there are more than `limit` bytes, or no more."""
    taken, size = [], 0
    for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size > limit:
            break
    return taken
