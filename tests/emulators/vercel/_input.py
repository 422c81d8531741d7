"""Standard input of a command that was started with it: counted bytes in a pipe."""

from __future__ import annotations

import asyncio
import os

from tests.emulators._http import Refusal


def unavailable() -> Refusal:
    """Answer where nothing can be written."""
    return Refusal(400, "command_stdin_unavailable", "command does not accept stdin")


class Input:
    """The writing end of a pipe."""

    def __init__(self, descriptor: int, stall_seconds: float) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._stall = stall_seconds
        self._turn = asyncio.Lock()
        self.written = 0

    async def feed(self, data: bytes, offset: int | None, *, close: bool) -> int:
        """Write what is new of `data`, which begins `offset` bytes after the first; return the bytes written so far.

        Raises:
            Refusal: The command has stopped reading, does not read in time, or bytes before `offset` are missing.
        """
        async with self._turn:
            start = self.written if offset is None else offset
            if start > self.written:
                raise Refusal(409, "conflict", f"offset {start} is past {self.written}", bytesWritten=self.written)
            if self._descriptor is None and (data or not close):
                raise unavailable()
            try:
                async with asyncio.timeout(self._stall):
                    await self._write(data[self.written - start :])
            except TimeoutError:
                message = "command is not reading its stdin"
                raise Refusal(504, "timeout", message, bytesWritten=self.written) from None
            except BrokenPipeError:
                self.close()
                raise unavailable() from None
            if close:
                self.close()
            return self.written

    async def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._descriptor is not None:
            try:
                count = os.write(self._descriptor, view)
            except BlockingIOError:
                await self._writable(self._descriptor)
                continue
            self.written += count
            view = view[count:]

    async def _writable(self, descriptor: int) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(descriptor)

    def close(self) -> None:
        """The command reads the end of its input."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
