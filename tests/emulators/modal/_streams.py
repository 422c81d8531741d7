"""The streams of a command, each addressed by absolute offset so that a broken call can go on where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from tempfile import SpooledTemporaryFile

_READ = 256 << 10
_IN_MEMORY = 256 << 10
"""Longer output is kept in a file: thousands of short ones would need as many descriptors."""


class Changes:
    """Wakes those who wait for something to change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Something changed."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def next(self) -> None:
        """Wait for the next change."""
        await self._event.wait()


class Output:
    """Everything that a command wrote to one stream. It is read from the pipe whether or not anybody asks for it.

    Args:
        pipe: The end that is read.
    """

    def __init__(self, pipe: int) -> None:
        self.size = 0
        self.ended = False
        self._pipe: int | None = pipe
        self._kept: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # see `forget`
        self._changes = Changes()
        os.set_blocking(pipe, False)
        asyncio.get_running_loop().add_reader(pipe, self._take)

    def _take(self) -> bool:
        assert self._pipe is not None
        try:
            data = os.read(self._pipe, _READ)
        except BlockingIOError:
            return False
        if not data:
            self.end()
            return False
        self._kept.seek(self.size)
        self._kept.write(data)
        self.size += len(data)
        self._changes.tell()
        return True

    def end(self) -> None:
        """Nothing more comes."""
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None
        self.ended = True
        self._changes.tell()

    def end_when_empty(self) -> None:
        """Take what is in the pipe, and wait for no other process that holds it."""
        while self._pipe is not None and self._take():
            pass
        self.end()

    def forget(self) -> None:
        """Give the kept bytes up; readers see the end."""
        self.end()
        self._kept.close()

    async def parts(self, offset: int, most: int) -> AsyncIterator[bytes]:
        """The bytes from this offset on, until the stream ends; never an empty part."""
        while not self._kept.closed:
            if offset < self.size:
                self._kept.seek(offset)
                data = self._kept.read(most)
                offset += len(data)
                yield data
            elif self.ended:
                return
            else:
                await self._changes.next()


class Refused(Exception):
    """The bytes cannot be taken."""


class Stdin:
    """The stream that a command reads.

    A byte counts as written at the moment when the pipe has taken it: a call that is cut off after that may be made
    again, and what the pipe has is dropped from it.

    Args:
        pipe: The end that is written.
        counts_late: Bytes count as written when a whole call is done, which is wrong.
        ahead: So many bytes are taken before the pipe takes them, and count as written.
    """

    def __init__(self, pipe: int, *, counts_late: bool = False, ahead: int = 0) -> None:
        self.written = 0
        self._counts_late, self._ahead = counts_late, ahead
        self._held = bytearray()
        self._pump: asyncio.Task[None] | None = None
        self.closed = False
        self._pipe: int | None = pipe
        self._turn = asyncio.Lock()
        self._changes = Changes()
        os.set_blocking(pipe, False)

    async def write(self, offset: int, data: bytes, *, eof: bool, is_whole: bool = True) -> None:
        """Hand over the bytes that the pipe does not have yet, and close it after them.

        Args:
            offset: Where they begin.
            data: The bytes.
            eof: Nothing follows.
            is_whole: This is a whole call and not the first part of one that is cut off.

        Raises:
            Refused: They begin behind what was written, the stream is closed, or its reader has gone.
        """
        async with self._turn:
            if offset > self.written:
                raise Refused(f"stdin has {self.written} bytes, the data begins at {offset}")
            fresh = memoryview(data)[self.written - offset :]
            if not fresh and (self.closed or not eof):
                return
            if self._pipe is None:
                raise Refused("stdin is closed" if self.closed else "the process has exited")
            await (self._hold(fresh) if self._ahead else self._hand_over(fresh))
            if self._counts_late and is_whole:
                self.written += len(fresh)
            if eof:
                self.closed = True
                if not self._held:
                    self.reader_gone()

    async def _hand_over(self, data: memoryview) -> None:
        while data:
            count = await self._some(data[:_READ])
            self.written += 0 if self._counts_late else count
            data = data[count:]

    async def _some(self, data: memoryview | bytes) -> int:
        """How many bytes the pipe takes, when it takes any."""
        while self._pipe is not None:
            try:
                return os.write(self._pipe, data)
            except BlockingIOError:
                await self._room(self._pipe)
            except BrokenPipeError:
                self.reader_gone()
        raise Refused("the process has exited")

    async def _hold(self, data: memoryview) -> None:
        while data:
            if self._pipe is None:
                raise Refused("the process has exited")
            if room := max(0, self._ahead - len(self._held)):
                part, data = data[:room], data[room:]
                self._held += part
                self.written += len(part)
                self._pump = self._pump or asyncio.create_task(self._pass_on())
            else:
                await self._changes.next()

    async def _pass_on(self) -> None:
        """Hand over what is held, and the end after it."""
        with contextlib.suppress(Refused):
            while self._held:
                count = await self._some(bytes(self._held[:_READ]))
                del self._held[:count]
                self._changes.tell()
            if self.closed:
                self.reader_gone()
        self._pump = None

    async def _room(self, pipe: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_writer(pipe, self._changes.tell)
        try:
            await self._changes.next()
        finally:
            if self._pipe is not None:
                loop.remove_writer(pipe)

    def reader_gone(self) -> None:
        """Nobody reads any more; writers that wait are refused."""
        if self._pipe is not None:
            with contextlib.suppress(ValueError):
                asyncio.get_running_loop().remove_writer(self._pipe)
            os.close(self._pipe)
            self._pipe = None
        self._changes.tell()
