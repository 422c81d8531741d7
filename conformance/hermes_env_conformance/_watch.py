"""Looks for a secret where everybody can see it: in argument lists, here and inside, and in the log."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ._lab import ROOMS

if TYPE_CHECKING:
    from ._lab import Lab

_PAUSE = 0.003
_LOOK = """
  for f in $(grep -lsF -f needle /proc/[0-9]*/cmdline); do
    IFS= read -r name <"${f%cmdline}comm" 2>/dev/null; echo "$f $name"
  done
"""
_INSIDE = f"""
: >looking
n=0; while [ ! -e stop-looking ] && [ $n -lt 2400 ]; do n=$((n+1))
{_LOOK}
  sleep 0.03
done
"""

_FIND = r"""
set -- /tmp /var/tmp /dev/shm "$PWD"
for d in "${TMPDIR-}" "${HOME-}"; do
  case $d in '' | /tmp | /var/tmp) ;; *) set -- "$@" "$d";; esac
done
find "$@" -maxdepth DEPTH -xdev \( -name 'ROOMS*' -prune \) -o -type f -newer mark \
  ! -path "*/proc/*" ! -path "$PWD/needle" -exec grep -lsF -f needle {} + 2>/dev/null
:
"""
"""Every file is looked at once: a machine's own directories for temporary files may hold ten thousands."""


def files_with(lab: Lab, *, depth: int | None = None) -> set[str]:
    """Files newer than the law's ``mark`` that hold what its ``needle`` holds.

    Args:
        lab: The law's means.
        depth: How far below the directories for temporary files, the home and the law's own directory; None is as far
            as files of a framework are made.
    """
    below = lab.scale(3, 4, 4) if depth is None else depth
    return set(lab.sh(_FIND.replace("DEPTH", str(below)).replace("ROOMS", ROOMS)).text.splitlines())


def canary() -> bytes:
    """Text that occurs nowhere else."""
    return f"canary-{secrets.token_hex(12)}".encode()


@dataclass
class Sightings:
    """Who showed the secret."""

    lab: Lab
    secret: bytes = field(repr=False)
    found: set[str] = field(default_factory=set)

    def look_again(self) -> None:
        """Look at every argument list now, here and inside: at what stays as it is until this returns."""
        _scan_host(self.secret, self.found)
        self.add(self.lab.sh(_LOOK).text)

    def add(self, text: str) -> None:
        """Take in what a look inside has printed."""
        self.found.update(f"inside: {line.partition(' ')[2]}" for line in text.splitlines())


def _scan_host(secret: bytes, found: set[str]) -> None:
    """One pass over every argument list of this machine, read in this process: nothing here carries the secret."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if secret in file.read():
                    found.add(f"host: {_comm(pid)}")
        except OSError:
            continue


def _comm(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a process that has ended"


@contextmanager
def watched_argv(lab: Lab, secret: bytes) -> Iterator[Sightings]:
    """Look into every argument list, on this machine and in the environment, for as long as the block runs.

    The environment gets the secret in a file, for ``grep -F -f``, so that no argument list of ours holds it.
    """
    sightings = Sightings(lab, secret)
    lab.sh("umask 077; cat >needle; rm -f stop-looking looking", stdin=secret)
    inside = lab.env.start(_INSIDE, cwd=lab.root)
    lab.until_exists("looking")
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_PAUSE):
            _scan_host(secret, sightings.found)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield sightings
    finally:
        stop.set()
        thread.join()
        lab.sh(": >stop-looking")
        sightings.add(inside.wait(lab.deadline).text)
        lab.sh("rm -f needle looking")


class Ears(logging.Handler):
    """Collects every record of the logger ``hermes_env``, arguments and tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record as text."""
        parts = [record.getMessage(), repr(record.args)]
        if record.exc_info:
            parts.append(logging.Formatter().formatException(record.exc_info))
        self.heard.append(" ".join(parts))


@contextmanager
def heard() -> Iterator[Ears]:
    """Listen to the log at its most talkative for as long as the block runs."""
    logger, ears = logging.getLogger("hermes_env"), Ears()
    level = logger.level
    logger.addHandler(ears)
    logger.setLevel(logging.DEBUG)
    try:
        yield ears
    finally:
        logger.setLevel(level)
        logger.removeHandler(ears)
