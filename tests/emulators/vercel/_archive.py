"""Unpacks a gzip-compressed tar archive while it arrives, file by file, not atomically."""

from __future__ import annotations

import os
import secrets
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.emulators._http import Refusal

from ._answers import file_refusal

if TYPE_CHECKING:
    from ._switches import Switches

_BLOCK = 512


@dataclass(slots=True)
class _Entry:
    """The file that is being written."""

    path: str
    place: str
    """Where its bytes go: the path, or a new file that will take its name."""
    file: int
    mode: int
    left: int
    padding: int


class Unpacker:
    """Takes an archive in pieces of any length; what has arrived stays, whatever comes after."""

    def __init__(self, base: str, switches: Switches) -> None:
        self._base, self._switches = base, switches
        self._inflate = zlib.decompressobj(wbits=31)
        self._pending = bytearray()
        self._entry: _Entry | None = None
        self._skip = 0
        self._extended: dict[str, str] = {}
        self.written: list[str] = []

    def take(self, piece: bytes) -> None:
        """The next piece of the body.

        Raises:
            Refusal: It is no archive, or a file cannot be written.
        """
        try:
            self._pending += self._inflate.decompress(piece)
        except zlib.error as error:
            raise Refusal(400, "bad_request", f"body is not gzip: {error}") from error
        while self._step():
            pass

    def finish(self) -> None:
        """The body is over.

        Raises:
            Refusal: It ends too early.
        """
        if self._entry is not None or not self._inflate.eof:
            raise Refusal(400, "bad_request", "body ends too early")

    def close(self) -> None:
        """Let go of the file that was being written."""
        if self._entry is not None:
            os.close(self._entry.file)
            self._entry = None

    def _step(self) -> bool:
        """Use some of what is pending; False when more is needed."""
        if self._entry is not None:
            return self._write(self._entry)
        if self._skip:
            count = min(self._skip, len(self._pending))
            del self._pending[:count]
            self._skip -= count
            return not self._skip
        return self._head()

    def _head(self) -> bool:
        if len(self._pending) < _BLOCK:
            return False
        block = bytes(self._pending[:_BLOCK])
        if not block.strip(b"\0"):
            del self._pending[:_BLOCK]
            return True
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        size = int(self._extended.get("size", info.size))
        if info.type == tarfile.XHDTYPE:
            return self._extend(info.size)
        del self._pending[:_BLOCK]
        path = os.path.join(self._base, self._extended.get("path", info.name))
        self._extended = {}
        self._begin(path, info, size)
        return True

    def _extend(self, size: int) -> bool:
        """Read a PAX header: lines of length, key and value."""
        whole = _BLOCK + size + -size % _BLOCK
        if len(self._pending) < whole:
            return False
        records = bytes(self._pending[_BLOCK : _BLOCK + size])
        del self._pending[:whole]
        while records:
            length, _, _ = records.partition(b" ")
            key, _, value = records[len(length) + 1 : int(length) - 1].decode().partition("=")
            self._extended[key] = value
            records = records[int(length) :]
        return True

    def _begin(self, path: str, info: tarfile.TarInfo, size: int) -> None:
        try:
            if info.isdir():
                os.makedirs(path, mode=0o755, exist_ok=True)
                self._skip = size + -size % _BLOCK
                return
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            place, file = self._open(path, info.mode)
        except OSError as error:
            raise file_refusal(error, path) from error
        self.written.append(path)
        self._entry = _Entry(path, place, file, info.mode, size, -size % _BLOCK)

    def _open(self, path: str, mode: int) -> tuple[str, int]:
        replace = self._switches.overwrite == "replace" and os.path.lexists(path)
        place = f"{path}.{secrets.token_hex(4)}" if replace else path
        given = mode if self._switches.upload_mode == "open" else 0o644
        return place, os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, given)

    def _write(self, entry: _Entry) -> bool:
        """Write what is there of the current file; end it with its padding."""
        if entry.left:
            data = self._pending[: entry.left]
            try:
                count = os.write(entry.file, data)
            except OSError as error:
                raise file_refusal(error, entry.path) from error
            entry.left -= count
            del self._pending[:count]
            return bool(count)
        if len(self._pending) < entry.padding:
            return False
        del self._pending[: entry.padding]
        self._end(entry)
        return True

    def _end(self, entry: _Entry) -> None:
        if self._switches.upload_mode == "chmod":
            os.fchmod(entry.file, entry.mode)
        self.close()
        if entry.place != entry.path:
            os.replace(entry.place, entry.path)
