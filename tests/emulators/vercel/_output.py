"""What a command writes, kept as the text records that the service hands out."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
from collections.abc import AsyncIterator
from typing import Any

Line = bytes
"""One JSON object and a newline."""


def as_line(record: dict[str, Any]) -> Line:
    """A record of an `application/x-ndjson` answer."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Output:
    """The records of one command; every reader starts at the first."""

    def __init__(self, *, decode: str, piece: int) -> None:
        self._piece, self._incremental = piece, decode == "incremental"
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._open: dict[str, int] = {}
        self._lines: list[Line] = []
        self._news = asyncio.Event()
        self.sealed = False

    @property
    def drained(self) -> bool:
        """Whether nobody can write any more."""
        return not self._open

    def attach(self, name: str, descriptor: int) -> None:
        """Read a pipe as fast as it is written, whoever reads here."""
        os.set_blocking(descriptor, False)
        self._open[name] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._read, name)

    def _read(self, name: str) -> bool:
        """Take one piece; False when there is none now."""
        try:
            data = os.read(self._open[name], self._piece)
        except BlockingIOError:
            return False
        if not self._incremental:
            text = data.decode("utf-8", "replace")
        else:
            text = self._decoders[name].decode(data, final=not data)
        if text and not self.sealed:
            self._lines.append(as_line({"stream": name, "data": text}))
        if not data:
            self._close(name)
        self._tell()
        return bool(data)

    def take_rest(self) -> None:
        """Take what is in the pipes now."""
        for name in list(self._open):
            while name in self._open and self._read(name):
                pass

    def seal(self, last: dict[str, Any] | None = None) -> None:
        """No record comes after this; whoever still writes is read and ignored."""
        if last is not None:
            self._lines.append(as_line(last))
        self.sealed = True
        self._tell()

    def close(self) -> None:
        """Let go of the pipes."""
        for name in list(self._open):
            self._close(name)

    def _close(self, name: str) -> None:
        descriptor = self._open.pop(name)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next record, the end of a pipe, or the seal."""
        await self._news.wait()

    async def lines(self) -> AsyncIterator[Line]:
        """Every record from the first, until it is sealed."""
        at = 0
        while True:
            while at < len(self._lines):
                yield self._lines[at]
                at += 1
            if self.sealed:
                return
            await self.changed()
