"""What this client keeps of its edits: one JSON line per attempt, and the original bytes of every applied one."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

DEFAULT_KEPT: Final = 200
DEFAULT_BYTES: Final = 1 << 30
DEFAULT_DAYS: Final = 30.0
_DAY: Final = 86_400.0
_BASE: Final = os.path.join("hermes-env", "edits")


@dataclass(frozen=True, slots=True)
class Retention:
    """How many backups are kept; the oldest go first. Lines of the record are never removed."""

    edits: int = DEFAULT_KEPT
    bytes: int = DEFAULT_BYTES
    """Bytes of all backups together. The newest edit stays in any case."""
    days: float = DEFAULT_DAYS
    """Age at which a backup goes, also that of an environment that nobody opens again."""


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One file of an attempt."""

    path: str
    operation: str
    before_sha256: str | None = None
    after_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One attempt to edit: applied, refused or rolled back."""

    edit_id: str
    time: str
    """UTC, ISO 8601."""
    tool: str
    arguments: Mapping[str, Any]
    """As the tool was called, so that it can be called again."""
    status: str
    ok: bool
    files: tuple[HistoryFile, ...] = ()
    error: Mapping[str, Any] | None = None
    note: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    undoes: str | None = None
    """The edit that this one undid."""


def default_directory(key: str) -> str:
    """Where the edits of one environment and workspace are kept on this machine."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return os.path.join(base, _BASE, name)


class Store:
    """A private directory of this machine. Thread-safe, and safe between processes."""

    def __init__(self, directory: str, retention: Retention) -> None:
        self.directory = directory
        self._retention = retention
        self._lock = threading.Lock()
        self._pruned = False
        self._record = os.path.join(directory, "history.jsonl")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            fd = os.open(os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield
            finally:
                os.close(fd)

    def _backup(self, edit_id: str) -> str:
        return os.path.join(self.directory, f"{edit_id}.backup")

    def keep(self, edit_id: str, parts: Iterable[bytes]) -> None:
        """Keep a backup: whole, on the disk, readable by this user only.

        Raises:
            OSError: It cannot be kept.
        """
        with self._alone():
            path = self._backup(edit_id)
            temp = f"{path}.new"
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                with open(fd, "wb", closefd=True) as file:
                    file.writelines(parts)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temp, path)
            except OSError:
                _unlink(temp)
                raise
            self._prune()

    def _prune(self) -> None:
        newest = sorted(
            _backups(self.directory), key=lambda entry: (entry.stat().st_mtime_ns, entry.name), reverse=True
        )
        total = 0
        for index, entry in enumerate(newest):
            total += entry.stat().st_size
            if index and (index >= self._retention.edits or total > self._retention.bytes):
                _unlink(entry.path)
        self._prune_neighbours()

    def _prune_neighbours(self) -> None:
        """Backups of containers that are long gone: nobody opens their directory again, so it is done here, once."""
        if self._pruned:
            return
        self._pruned = True
        oldest = time.time() - self._retention.days * _DAY
        for directory in _neighbours(self.directory):
            for entry in _backups(directory):
                if entry.stat().st_mtime < oldest:
                    _unlink(entry.path)

    def drop(self, edit_id: str) -> None:
        """Forget the backup of an edit that was not applied."""
        _unlink(self._backup(edit_id))

    def backup(self, edit_id: str) -> bytes | None:
        """The backup of an edit; None when there is none, or no longer."""
        try:
            with open(self._backup(edit_id), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def note(self, entry: HistoryEntry) -> None:
        """Append an attempt to the record, in one write.

        Raises:
            OSError: It cannot be appended.
        """
        line = json.dumps(asdict(entry)).encode() + b"\n"
        with self._alone():
            fd = os.open(self._record, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with open(fd, "wb", buffering=0) as file:
                file.write(line)

    def entries(self) -> list[HistoryEntry]:
        """Every attempt, oldest first. A line that a full disk cut is left out."""
        try:
            with open(self._record, "rb") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        return [entry for line in lines if (entry := _entry(line)) is not None]


def _backups(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return [entry for entry in entries if entry.name.endswith(".backup")]


def _neighbours(directory: str) -> list[str]:
    """This directory, and where it has its default place those of other environments."""
    base = os.path.dirname(directory)
    if not base.endswith(_BASE):
        return [directory]
    return [os.path.join(base, name) for name in os.listdir(base) if os.path.isdir(os.path.join(base, name))]


def _entry(line: bytes) -> HistoryEntry | None:
    try:
        fields = json.loads(line)
        files = tuple(HistoryFile(**one) for one in fields.pop("files"))
        return HistoryEntry(**fields, files=files)
    except (ValueError, TypeError, KeyError):
        return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
