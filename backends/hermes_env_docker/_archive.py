"""The engine's archives of a container: what `docker cp` uses. They need no program inside."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from hermes_env import TransportError, Unsupported

from ._client import engine_errors

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 256 << 10
"""Bytes read or sent at once."""
_DIRECTORY, _SYMLINK, _DEVICE, _FIFO, _SOCKET = 1 << 31, 1 << 27, 1 << 26, 1 << 25, 1 << 24
"""Bits of a mode as the engine tells it: those of Go's `fs.FileMode`."""
_DEPTH = 255
"""Components of a path that are looked at; the engine follows as many links."""
_ENGINES_OWN = ("/proc", "/sys", "/dev")
"""File systems that exist only while the container runs: an archive shows what lies below them."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an archive says of one name."""

    path: str
    """Absolute, without symbolic links."""
    is_directory: bool
    is_file: bool


class Archive:
    """One container's files, as the engine packs and unpacks them; paths are absolute."""

    def __init__(self, api: APIClient, container: str) -> None:
        self._api, self._container = api, container
        self._url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
        self._hidden = _hidden(api, container)

    def real(self, path: str) -> str:
        """The path without symbolic links; its last component may be missing.

        Raises:
            OSError: ENOENT, ENOTDIR or ELOOP, of the caller's path.
            Unsupported: It lies where an archive shows something else than the container sees.
        """
        parts, place = [part for part in path.split("/") if part not in ("", ".")], "/"
        for index, part in enumerate(parts[:_DEPTH]):
            place = os.path.normpath(os.path.join(place, part))
            self._check_visible(place, path)
            told = self._told(place)
            if told is None:
                if index < len(parts) - 1:
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                break
            if told["mode"] & _SYMLINK:
                # The engine follows a link to its end, inside the container.
                place = os.path.normpath("/" + told["linkTarget"])
                self._check_visible(place, path)
                told = self._told(place)
            if index < len(parts) - 1 and (told is None or not told["mode"] & _DIRECTORY):
                code = errno.ENOENT if told is None else errno.ENOTDIR
                raise OSError(code, os.strerror(code), path)
        if len(parts) > _DEPTH:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return place

    def _check_visible(self, place: str, path: str) -> None:
        for hidden in self._hidden:
            if place == hidden or place.startswith(hidden + "/"):
                raise Unsupported(f"{path}: {hidden} is in memory only, and the container has no /bin/sh to reach it")

    def look(self, real: str) -> Found | None:
        """What has that name; None for nothing."""
        told = self._told(real)
        if told is None:
            return None
        special = _SYMLINK | _DEVICE | _FIFO | _SOCKET | _DIRECTORY
        return Found(real, bool(told["mode"] & _DIRECTORY), not told["mode"] & special)

    def _told(self, path: str) -> dict[str, Any] | None:
        with self._engine_errors(path):
            response = self._api.head(self._url, params={"path": path}, timeout=self._api.timeout)
        with response:
            if response.status_code == 404:
                self._require_container()
                return None
            self._raise_for(response, path)
            told: dict[str, Any] = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
        return told

    @contextlib.contextmanager
    def members(self, real: str) -> Iterator[Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]]:
        """Everything at and below a name, in the archive's order, each with its bytes; those are read in passing.

        Raises:
            FileNotFoundError: Nothing has that name.
            TransportError: The archive ended too early, while its bytes are read.
        """
        with self._engine_errors(real):
            response = self._api.get(
                self._url,
                params={"path": real},
                headers={"Accept-Encoding": "identity"},  # packed again, it would only take longer
                stream=True,
                timeout=self._api.timeout,
            )
        with response:
            self._raise_for(response, real)
            yield _unpacked(response.raw, real)

    def put(self, directory: str, members: Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]) -> None:
        """Unpack members into a directory: what has the name of a file is replaced by it.

        Raises:
            OSError: The engine cannot: EROFS, ENOSPC, EBUSY or ENOTDIR where its words say so, else EIO.
        """
        params = {"path": directory, "noOverwriteDirNonDir": "true"}
        with self._engine_errors(directory):
            response = self._api.put(self._url, params=params, data=_packed(members), timeout=self._api.timeout)
        with response:
            self._raise_for(response, directory)

    def _raise_for(self, response: Any, path: str) -> None:
        if response.status_code < 400:
            return
        if response.status_code == 404:
            self._require_container()
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        # The engine has no codes for errors of files, only the system's words in its message.
        said = response.text.lower()
        codes = (errno.EROFS, errno.ENOSPC, errno.EBUSY, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES)
        code = next((code for code in codes if os.strerror(code).lower() in said), None)
        if code is None:
            code = errno.EROFS if "read-only" in said else errno.EIO
        raise OSError(code, f"{os.strerror(code)}: {response.text.strip()[:200]}", path)

    def _require_container(self) -> None:
        with engine_errors(f"container {self._container[:12]}"):
            self._api.inspect_container(self._container)

    @contextlib.contextmanager
    def _engine_errors(self, path: str) -> Iterator[None]:
        with engine_errors(f"archive of {path} in container {self._container[:12]}"):
            yield


def _hidden(api: APIClient, container: str) -> tuple[str, ...]:
    with engine_errors(f"container {container[:12]}"):
        found = api.inspect_container(container)
    mounted = [mount["Destination"] for mount in found["Mounts"] if mount.get("Type") == "tmpfs"]
    return (*_ENGINES_OWN, *(found["HostConfig"].get("Tmpfs") or ()), *mounted)


def has_program(api: APIClient, container: str, path: str) -> bool:
    """Whether there is a file of that name, links followed.

    Raises:
        EnvironmentGone, BackendUnavailable: The container cannot be asked.
    """
    archive = Archive(api, container)
    try:
        found = archive.look(archive.real(path))
    except OSError:
        return False
    return found is not None and found.is_file


def _unpacked(raw: Any, real: str) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes]]]:
    try:
        with tarfile.open(fileobj=cast("Any", _Body(raw)), mode="r|", bufsize=CHUNK) as tar:
            empty = True
            for member in tar:
                empty = False
                yield member, _content(tar, member)
            if empty:
                raise tarfile.ReadError("it is empty")
    except tarfile.TarError as error:
        raise TransportError(f"{real}: the engine's archive is damaged or ended too early ({error})") from error


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = tar.extractfile(member) if member.isreg() else None
    left = member.size
    while file is not None and left:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            raise tarfile.ReadError("unexpected end of data")
        left -= len(chunk)
        yield chunk


class _Body:
    """The body of an answer, as `tarfile` reads streams; a link that is lost is an error and no end."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def read(self, size: int) -> bytes:
        import urllib3.exceptions

        try:
            data: bytes = self._raw.read(size)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise tarfile.ReadError(f"the link was lost: {type(error).__name__}") from error
        return data


def _packed(members: Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]) -> Iterator[bytes]:
    for member, content in members:
        yield member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        left = member.size
        while content is not None and left:
            chunk = content.read(min(CHUNK, left))
            if not chunk:
                raise EOFError("the content became shorter while it was sent")
            left -= len(chunk)
            yield chunk
        yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
