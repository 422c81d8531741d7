"""The toolbox's file endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import json
import os
import pwd
import re
import secrets
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import web
from python_multipart.multipart import MultipartParser, parse_options_header

from tests.emulators._http import Refusal

from ._answers import file_refusal

if TYPE_CHECKING:
    from ._sandboxes import Sandbox
    from ._switches import Switches

_CHUNK = 64 << 10
_BOUNDARY = "DAYTONA-FILE-BOUNDARY"
_FIELD = re.compile(r"files\[(\d+)\]\.(path|file)")


class Upload:
    """Writes the parts of a bulk upload in place, as they arrive."""

    def __init__(self, sandbox: Sandbox, switches: Switches, boundary: bytes) -> None:
        self._sandbox, self._switches = sandbox, switches
        self._paths: dict[str, bytearray] = {}
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = bytearray(), bytearray()
        self._sink: Callable[[bytes], object] | None = None
        self._file: int | None = None
        self.written: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header,
                "on_headers_finished": self._open,
            },
        )

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._sink is not None:
            self._sink(data[start:end])

    def _begin(self) -> None:
        self._headers.clear()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        match = _FIELD.fullmatch(options.get(b"name", b"").decode())
        self._sink = None
        if match is None:
            return
        index, kind = match.groups()
        if kind == "path":
            self._sink = self._paths.setdefault(index, bytearray()).extend
            return
        path = self._paths.get(index, bytearray()).decode()
        if self._switches.trim_upload_paths:
            path = path.strip()
        self._create(path)

    def _create(self, path: str) -> None:
        where = self._sandbox.path(path)
        try:
            os.makedirs(os.path.dirname(where), mode=0o755, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self._file = os.open(where, flags, self._switches.upload_mode)
        except OSError as error:
            self.errors.append(f"{path}: {(error.strerror or '').lower()}")
            return
        entry = {"path": path, "bytes": 0}
        self.written.append(entry)
        self._sink = lambda data: self._write(data, entry)

    def _write(self, data: bytes, entry: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            while data:
                count = os.write(self._file, data)
                entry["bytes"] += count
                data = data[count:]
        except OSError as error:
            self.errors.append(f"{entry['path']}: {(error.strerror or '').lower()}")
            self._sink = None

    def _end(self) -> None:
        self._sink = None
        self.close()

    def close(self) -> None:
        """Let go of the file that was being written; what has arrived stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


async def upload(
    sandbox: Sandbox, request: web.Request, switches: Switches, body: AsyncIterator[bytes]
) -> web.Response:
    """``POST files/bulk-upload``: best effort for each file, in place, not atomic."""
    _, options = parse_options_header(request.headers.get("Content-Type", ""))
    if b"boundary" not in options:
        raise Refusal(400, "BAD_REQUEST", "no multipart boundary")
    job = Upload(sandbox, switches, options[b"boundary"])
    try:
        async for chunk in body:
            await asyncio.to_thread(job.parser.write, chunk)
    finally:
        job.close()
    if job.errors:
        return web.json_response({"errors": job.errors, "files": job.written}, status=400)
    return web.json_response({"files": job.written})


def download_boundary(switches: Switches) -> str:
    """The boundary of one answer."""
    return _BOUNDARY if switches.fixed_boundary else secrets.token_hex(16)


async def download_parts(sandbox: Sandbox, paths: list[str], boundary: str, *, style: str) -> AsyncIterator[bytes]:
    """The body of ``POST files/bulk-download``."""
    for path in paths:
        where = sandbox.path(path)
        try:
            file = await asyncio.to_thread(open, where, "rb")
        except OSError as error:
            yield _error_part(file_refusal(error, path), path, boundary, style)
            continue
        yield _head("file", path, boundary, "application/octet-stream")
        with file:
            while chunk := await asyncio.to_thread(file.read, _CHUNK):
                yield chunk
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _head(name: str, path: str, boundary: str, kind: str) -> bytes:
    disposition = f"form-data; {_parameter('filename', path)}; name={name}"
    return f"--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: {kind}\r\n\r\n".encode()


def _parameter(name: str, value: str) -> str:
    """A header parameter as Go's mime.FormatMediaType writes it."""
    if not all(" " <= char <= "~" or char == "\t" for char in value):
        return f"{name}*=utf-8''{quote(value, safe='')}"
    if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`{|}~-]+", value):
        return f"{name}={value}"
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}="{escaped}"'


def _error_part(refusal: Refusal, path: str, boundary: str, style: str) -> bytes:
    if style == "bare":
        return _head("error", path, boundary, "text/plain") + refusal.message.encode() + b"\r\n"
    body = {"statusCode": refusal.status, "message": refusal.message, "code": refusal.code, "source": "DAYTONA_DAEMON"}
    return _head("error", path, boundary, "application/json") + json.dumps(body).encode() + b"\r\n"


def info(sandbox: Sandbox, path: str) -> dict[str, Any]:
    """``GET files/info``: follows symlinks."""
    return _describe(sandbox.path(path), os.path.basename(path.rstrip("/")) or "/")


def _describe(where: str, name: str) -> dict[str, Any]:
    facts = os.stat(where)
    return {
        "name": name,
        "size": facts.st_size,
        "isDir": stat.S_ISDIR(facts.st_mode),
        "mode": stat.filemode(facts.st_mode),
        "permissions": f"{stat.S_IMODE(facts.st_mode):04o}",
        "modTime": str(facts.st_mtime),
        "owner": _owner(facts.st_uid),
        "group": _group(facts.st_gid),
    }


def _owner(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)


def _group(gid: int) -> str:
    with contextlib.suppress(KeyError):
        return grp.getgrgid(gid).gr_name
    return str(gid)


def list_dir(sandbox: Sandbox, path: str) -> list[dict[str, Any]]:
    """``GET files``."""
    where = sandbox.path(path)
    return [_describe(os.path.join(where, name), name) for name in sorted(os.listdir(where))]


def remove(sandbox: Sandbox, path: str, *, recursive: bool) -> None:
    """``DELETE files``."""
    where = sandbox.path(path)
    if not os.path.isdir(where) or os.path.islink(where):
        os.remove(where)
    elif recursive:
        shutil.rmtree(where)
    else:
        raise Refusal(400, "BAD_REQUEST", "cannot delete directory without recursive flag")


def chmod(sandbox: Sandbox, path: str, mode: str) -> None:
    """``POST files/permissions``: octal digits only."""
    if mode and not re.fullmatch(r"[0-7]+", mode):
        raise Refusal(400, "BAD_REQUEST", "invalid mode format")
    if mode:
        os.chmod(sandbox.path(path), int(mode, 8) & 0o777)


def make_dir(sandbox: Sandbox, path: str, mode: str) -> None:
    """``POST files/folder``: the mode goes to every level it creates, never to a directory that is there."""
    if not re.fullmatch(r"[0-7]+", mode):
        raise Refusal(400, "BAD_REQUEST", "invalid mode format")
    missing = sandbox.path(path).rstrip("/")
    todo = []
    while not os.path.isdir(missing):
        todo.append(missing)
        missing = os.path.dirname(missing)
    for place in reversed(todo):
        os.mkdir(place)
        os.chmod(place, int(mode, 8) & 0o777)


def move(sandbox: Sandbox, source: str, destination: str) -> None:
    """``POST files/move``: never onto something that is there."""
    target = sandbox.path(destination)
    if os.path.lexists(target):
        raise Refusal(409, "CONFLICT", "destination already exists")
    os.rename(sandbox.path(source), target)
