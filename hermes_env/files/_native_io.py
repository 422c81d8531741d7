"""Bytes to and from files of this machine, each hashed a second time from a descriptor of its own."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_env._errors import FileChanged

from ._digest import Tally
from ._oserror import os_error

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

CHUNK = 1 << 20
"""Bytes per read and write; larger ones measured no faster."""
_PIECE = 1 << 30
"""Bytes of one read call at most: Linux stops at 2 GiB less a page."""


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of the system name the caller's path, never a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename == path:
            raise
        raise os_error(error.errno, path) from error


@contextmanager
def opened(path: bytes, flags: int, mode: int = 0o600) -> Iterator[int]:
    """A descriptor for the time of a block."""
    fd = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield fd
    finally:
        os.close(fd)


class TrailingHash:
    """SHA-256 of what stands in a file, read on a thread behind someone who writes or reads it.

    It reads through a descriptor of its own: it shares no buffer and no offset with what it checks.
    """

    def __init__(self, fd: int, start: int = 0) -> None:
        self._fd = fd
        self._position = self._end = start
        self._hash = hashlib.sha256()
        self._closed = False
        self._failure: OSError | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def advance(self, end: int) -> None:
        """Everything up to offset `end` can be read now."""
        with self._changed:
            self._end = end
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hermes-env-hash", daemon=True)
            self._thread.start()

    def rush(self, end: int) -> None:
        """Like `advance`, for the last part, which `finish` reads itself when no thread runs."""
        with self._changed:
            self._end = end
            self._changed.notify()

    def close(self) -> None:
        """Stop; the thread is gone when this returns."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def finish(self) -> str:
        """Hex digest from the start to the last `advance`.

        Raises:
            OSError: The file could not be read.
        """
        self.close()
        if self._failure is not None:
            raise self._failure
        self._consume(self._end)
        return self._hash.hexdigest()

    def _run(self) -> None:
        try:
            while (end := self._wait()) is not None:
                self._consume(end)
        except OSError as error:
            self._failure = error

    def _wait(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._position < self._end)
            return None if self._closed else self._end

    def _consume(self, end: int) -> None:
        buffer = memoryview(bytearray(min(CHUNK, max(1, end - self._position))))
        while self._position < end and not (self._closed and self._thread_runs()):
            count = os.preadv(self._fd, [buffer[: end - self._position]], self._position)
            if count == 0:
                # Shorter than announced: the digest differs then.
                self._position = end
                return
            self._hash.update(buffer[:count])
            self._position += count

    def _thread_runs(self) -> bool:
        return threading.current_thread() is self._thread


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view) :]


def store(temp: bytes, chunks: Iterable[bytes | memoryview], path: str, tally: Tally) -> tuple[int, str]:
    """Write chunks into a new private file, and count them.

    Returns:
        Size and digest of what stands in the file.

    Raises:
        OSError: For the caller's `path`; what `chunks` raises is passed on.
    """
    with naming(path):
        writer = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    reader = -1
    try:
        with naming(path):
            reader = os.open(temp, os.O_RDONLY | os.O_CLOEXEC)
        digest = _pump(writer, reader, chunks, tally, path)
        return os.fstat(reader).st_size, digest
    finally:
        os.close(writer)
        if reader >= 0:
            os.close(reader)


def _pump(writer: int, reader: int, chunks: Iterable[bytes | memoryview], tally: Tally, path: str) -> str:
    behind = TrailingHash(reader)
    try:
        for chunk in chunks:
            with naming(path):
                write_all(writer, chunk)
            tally.update(chunk)
            if tally.size > CHUNK:
                behind.advance(tally.size)
        behind.rush(tally.size)
        with naming(path):
            return behind.finish()
    finally:
        behind.close()


def digest_of(path: bytes) -> tuple[str, int]:
    """SHA-256 and size of a regular file."""
    with opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
        size = os.fstat(fd).st_size
        behind = TrailingHash(fd)
        behind.rush(size)
        return behind.finish(), size


@dataclass(frozen=True, slots=True)
class Source:
    """A regular file, opened once for its bytes and once for their digest."""

    path: str
    reader: int
    checker: int
    start: int
    length: int
    pseudo: bool
    """A file of `/proc` and the like: it has size 0, and content."""


@contextmanager
def source(name: bytes, path: str, offset: int, limit: int | None) -> Iterator[Source]:
    """Open a regular file for reading.

    Raises:
        OSError: It is none, or cannot be read. Nothing but a regular file is opened: a FIFO would wait.
    """
    with naming(path):
        require_regular(os.stat(name), path)
        reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    checker = -1
    try:
        with naming(path):
            checker = os.open(f"/dev/fd/{reader}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            state = os.fstat(reader)
            require_regular(state, path)
        length = max(0, state.st_size - offset)
        length = length if limit is None else min(length, limit)
        yield Source(path, reader, checker, offset, length, state.st_size == 0)
    finally:
        os.close(reader)
        if checker >= 0:
            os.close(checker)


def require_regular(state: os.stat_result, path: str) -> None:
    """Raise unless it is the state of a regular file."""
    if stat.S_ISDIR(state.st_mode):
        raise os_error(errno.EISDIR, path)
    if not stat.S_ISREG(state.st_mode):
        raise os_error(errno.EINVAL, path, "is no regular file")


def read_whole(file: Source, limit: int | None) -> bytes:
    """All bytes of the part that was asked for.

    Raises:
        FileChanged: A second reading gave other bytes.
    """
    if file.pseudo:
        with naming(file.path):
            content = b"".join(iter(lambda: os.read(file.reader, CHUNK), b""))
        end = None if limit is None else file.start + limit
        return content[file.start : end]
    with naming(file.path):
        content = _pieces(file)
        if len(content) != file.length:
            raise FileChanged(file.path, "became shorter while it was read")
        if not _holds_still(file, content):
            raise FileChanged(file.path, "changed while it was read")
    return content


def _holds_still(file: Source, content: bytes) -> bool:
    """Whether a second reading, begun after the first one ended, gives the same: then no moment in between was torn."""
    return _same_bytes(file.checker, file.start, content)


def _same_bytes(fd: int, offset: int, content: bytes) -> bool:
    """Whether these bytes stand in a file. Slices of bytes are compared ten times as fast as memory views."""
    for start in range(0, len(content), CHUNK):
        part = content[start : start + CHUNK]
        if os.pread(fd, len(part), offset + start) != part:
            return False
    return True


def holds(path: bytes, content: bytes) -> bool:
    """Whether a regular file holds these bytes, and nothing behind them."""
    with opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
        return os.fstat(fd).st_size == len(content) and _same_bytes(fd, 0, content)


def _pieces(file: Source) -> bytes:
    pieces, position, end = [], file.start, file.start + file.length
    while position < end and (piece := os.pread(file.reader, min(end - position, _PIECE), position)):
        pieces.append(piece)
        position += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_through(file: Source) -> Generator[bytes, None, None]:
    """The bytes in chunks.

    Raises:
        FileChanged: At the end, when a second reading gave other bytes.
    """
    if file.pseudo:
        with naming(file.path):
            content = b"".join(iter(lambda: os.read(file.reader, CHUNK), b""))
        if content:
            yield content
        return
    tally = Tally()
    behind = TrailingHash(file.checker, file.start)
    try:
        while tally.size < file.length:
            position = file.start + tally.size
            with naming(file.path):
                chunk = os.pread(file.reader, min(CHUNK, file.length - tally.size), position)
            if not chunk:
                break
            tally.update(chunk)
            yield chunk
        # Begun only now: had it followed closely, a change behind both readings would go unseen.
        behind.rush(file.start + file.length)
        with naming(file.path):
            _compare(file, tally.size, tally.sha256, behind.finish())
    finally:
        behind.close()


def _compare(file: Source, size: int, digest: str, again: str) -> None:
    if size != file.length:
        raise FileChanged(file.path, "became shorter while it was read")
    if digest != again:
        raise FileChanged(file.path, "changed while it was read")
