"""Processes of this machine, sandboxes' and servers' among them, as /proc shows them: by no code of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator


def is_dead(pid: int | str) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in (b"Z", b"X")
    except OSError:
        return True


def marked(text: str) -> list[int]:
    """Living processes with this text in their environment, like the id of the command that they are of."""
    return [pid for pid, environ in _read("environ") if os.fsencode(text) in environ and not is_dead(pid)]


def showing(text: bytes) -> list[int]:
    """Processes whose argument list, which everybody may read, holds this text."""
    return [pid for pid, argv in _read("cmdline") if text in argv]


def _read(what: str) -> Iterator[tuple[int, bytes]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/{what}", "rb") as file:
                content = file.read()
        except OSError:
            continue
        yield int(pid), content
