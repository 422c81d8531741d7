"""Names of temporary files: they tell which process made them, so that only those of dead ones are swept."""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil

_PREFIX = b".hermes+"
_SUFFIX = b".tmp"
_BACKUP = b".bak"
_HOST = re.compile(rb"[A-Za-z0-9._-]+\Z")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read().strip()
    except OSError:
        return b""


def _birth(pid: str) -> bytes:
    """When a process started, in clock ticks since boot; empty when there is none, or it is dead."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    # Field 22 of the line, counted from behind the name, which may hold anything.
    dead = fields[:1] in ([b"Z"], [b"X"])
    return fields[19] if len(fields) > 19 and not dead else b""


@functools.cache
def _place() -> bytes:
    """This boot and this pid namespace; ``-`` where they cannot be told, and then nothing is swept."""
    birth = _birth("1")
    if not birth:
        return b"-"
    boot = _read("/proc/sys/kernel/random/boot_id").partition(b"-")[0] or b"-"
    host = _read("/proc/sys/kernel/hostname")
    return b".".join([boot, birth, host if _HOST.match(host) else b"-"])


def new_mark() -> bytes:
    """The start of the names of one commit's files; the scripts make them the same way."""
    pid = str(os.getpid())
    fields = [_place(), pid.encode(), _birth(pid) or b"-", secrets.token_hex(8).encode()]
    return _PREFIX + b"+".join(fields) + b"."


def sweep(directory: bytes) -> None:
    """Remove temporary files of writers that surely are dead: same boot, same pid namespace, process gone."""
    if _place() == b"-":
        return
    for name in _left_over(directory):
        place, _, rest = name[len(_PREFIX) :].partition(b"+")
        pid, _, rest = rest.partition(b"+")
        if place != _place() or not pid.isdigit():
            continue
        if _birth(pid.decode()) != rest.partition(b"+")[0]:
            _remove(os.path.join(directory, name))


def sweep_all(directory: bytes, *, backups: bool) -> tuple[list[bytes], list[bytes]]:
    """As `sweep`, backups too if wanted: what was removed, and what stays since its writer lives or may live."""
    removed, busy = [], []
    for name in _left_over(directory, (_SUFFIX, _BACKUP) if backups else (_SUFFIX,)):
        path = os.path.join(directory, name)
        place, _, rest = name[len(_PREFIX) :].partition(b"+")
        pid, _, rest = rest.partition(b"+")
        known = _place() != b"-" and place == _place() and pid.isdigit()
        if known and _birth(pid.decode()) != rest.partition(b"+")[0]:
            _remove(path)
            removed.append(path)
        else:
            busy.append(path)
    return removed, busy


def _left_over(directory: bytes, suffixes: tuple[bytes, ...] = (_SUFFIX,)) -> list[bytes]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [name for name in names if name.startswith(_PREFIX) and name.endswith(suffixes)]


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)
    except IsADirectoryError:
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return
