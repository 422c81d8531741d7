"""Uploads of any length: the SDK's archive needs the length of each file before its first byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Protocol

PART = 4 << 20
"""Bytes that are sent from memory, and that are collected where the length is not known."""
_JOIN = """umask 077
for f in "$1".part*; do
  [ -f "$f" ] || continue
  cat <"$f" && rm -f -- "$f" || exit 1
done >>"$1" && echo joined
"""
_REMOVE = """rm -f -- "$1" "$1".part*; [ ! -e "$1" ] && echo removed
"""


class Target(Protocol):
    """Where files go."""

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Small files in one request."""

    def write_stream(self, path: str, chunks: Iterator[bytes], size: int) -> None:
        """A file of this length."""

    def run(self, text: str) -> str:
        """Run command text and return its output."""


def upload(target: Target, path: str, chunks: Iterator[bytes], size: int | None = None) -> None:
    """Send one file.

    Args:
        target: Where to.
        path: Its place. Parts stand beside it until they are joined.
        chunks: Its content.
        size: What its length is said to be; content that goes on is sent in parts.
    """
    source = _Source(chunks)
    if size is None or size <= PART:
        target.write([(path, source.take(PART))])
    else:
        target.write_stream(path, source.first(size), size)
    parts = 0
    while rest := source.take(PART):
        target.write([(f"{path}.part{parts:08}", rest)])
        parts += 1
    if parts:
        _do(target, _JOIN, path, "joined")


def remove(target: Target, path: str) -> None:
    """Remove a file and its parts; none of them need be there."""
    _do(target, _REMOVE, path, "removed")


def _do(target: Target, script: str, path: str, done: str) -> None:
    if done not in target.run(f"set -- {quote(path)}\n{script}").split():
        raise ConnectionError(f"a staged file was not {done}")


class _Source:
    """Chunks of any length, taken by count of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def first(self, count: int) -> Iterator[bytes]:
        """The next chunks, `count` bytes at most in all."""
        while count > 0 and (chunk := self._rest or next(self._chunks, b"")):
            self._rest = chunk[count:]
            yield chunk[:count]
            count -= len(chunk)

    def take(self, count: int) -> bytes:
        """The next `count` bytes, fewer only at the end."""
        return b"".join(self.first(count))
