"""Ends a process tree on this machine by three nets, and tells whether anything is left."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ._kill_script import KillReport
from ._launch import COMMAND_ID_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_CLEAN_SCANS = 2
"""One clean scan is no proof: 31 of 200 trees were missed by one, none by two, when parents handed over children."""

_DYING = (0.0005, 0.001, 0.002, 0.004)
"""Seconds between looks at what was killed alone; what lives longer is left to the next scan."""
_USUAL = 64 << 10
"""Bytes of a first read: making room for the largest environment took most of the time of a look at a small one."""
_LARGEST = 4 << 20
"""Bytes of an environment that are read at most; one read returns all there is, up to that."""


class _Stat(NamedTuple):
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot."""


@dataclass(slots=True)
class _Tree:
    """What is known of a command's processes so far."""

    mark: bytes
    root: int
    lock: AbstractContextManager[object]
    reaped: Callable[[], bool]
    born: int
    """Start time of the root: what is older belongs to others, and needs no closer look."""
    elders: dict[int, int] = field(default_factory=dict)
    """Process id to inode of its directory in /proc, which is another one for each process that had the id."""
    seen: dict[int, int] = field(default_factory=dict)
    """Process id to start time, so that a reused id is never hit."""
    strangers: dict[int, int] = field(default_factory=dict)
    """The same of processes that belong to others: what lacks the mark at its birth never gets it."""
    signalled: set[int] = field(default_factory=set)

    def sweep(self, number: signal.Signals | None = None) -> list[int]:
        """Find the live members and signal them; nobody reaps the root between the look and the signal."""
        with self.lock:
            alive = self._scan()
            if number is not None:
                self._send(alive, number)
        return alive

    def strike(self, pids: list[int]) -> list[int]:
        """Kill these members, without a look at all the others; those that still live."""
        with self.lock:
            alive = [pid for pid in pids if (stat := _read_stat(pid)) and stat.started == self.seen[pid]]
            self._send(alive, signal.SIGKILL)
        return alive

    def _scan(self) -> list[int]:
        """Live members now; one pass over /proc."""
        table = _read_table(self.born, self.elders)
        alive = [pid for pid, stat in table.items() if self._belongs(pid, stat)]
        # A child read before its parent was recognised is caught here, not one scan later.
        alive += [pid for pid, stat in table.items() if pid not in self.seen and self._related(stat)]
        for pid in alive:
            self.seen[pid] = table[pid].started
        return alive

    def _belongs(self, pid: int, stat: _Stat) -> bool:
        known = self.seen.get(pid)
        if known is not None:
            return known == stat.started
        if self._related(stat) or (self.strangers.get(pid) != stat.started and self._has_mark(pid, stat)):
            self.seen[pid] = stat.started
            return True
        return False

    def _has_mark(self, pid: int, stat: _Stat) -> bool:
        environ = _read(f"/proc/{pid}/environ")
        if environ and self.mark not in environ:  # It is empty while the process is being replaced.
            self.strangers[pid] = stat.started
        return self.mark in environ

    def _related(self, stat: _Stat) -> bool:
        if stat.parent in self.seen:
            return True
        # Once the root is reaped, its number may lead a session of strangers.
        return not self.reaped() and self.root in (stat.group, stat.session)

    def _send(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
            except PermissionError:
                continue  # It stays in the next scan, so the kill is reported as unconfirmed.
            self.signalled.add(pid)


def _read_table(born: int, elders: dict[int, int]) -> dict[int, _Stat]:
    """Every live process but our own that is not older than that."""
    table = {}
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit() or elders.get(pid := int(entry.name)) == entry.inode():
                continue
            stat = _read_stat(pid)
            if stat is not None and (stat.started < born or pid == os.getpid()):
                elders[pid] = entry.inode()
            elif stat is not None:
                table[pid] = stat
    return table


def _read_stat(pid: int) -> _Stat | None:
    """What the system tells of a live process; zombies are dead."""
    words = _read_words(pid)
    if not words or words[0] in (b"Z", b"X"):
        return None
    return _Stat(int(words[1]), int(words[2]), int(words[3]), int(words[19]))


def _read_words(pid: int) -> list[bytes]:
    # The name in parentheses may hold anything, also ") ": the last one ends it.
    words = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split(None, 20)
    return words if len(words) > 19 else []


def _read(path: str) -> bytes:
    """The content; nothing when the process has ended, or is not ours to look into."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = os.read(fd, _USUAL)
        return data if len(data) < _USUAL else data + os.read(fd, _LARGEST)
    except OSError:
        return b""
    finally:
        os.close(fd)


def kill_tree(
    command_id: str,
    root: int,
    *,
    grace: float,
    lock: AbstractContextManager[object],
    reaped: Callable[[], bool],
    within: float = 4.0,
) -> KillReport:
    """End every process of a command: TERM, `grace` seconds, then stop, sweep and KILL.

    Args:
        command_id: Value of ``HERMES_ENV_COMMAND`` in the processes' environment.
        root: Process id of the command's session leader.
        grace: Seconds between TERM and KILL; 0 sends no TERM.
        lock: Held for each look and signal; the root is only reaped by who holds it.
        reaped: Tells whether the root was reaped.
        within: Seconds after which what is left is given up and reported as unconfirmed.
    """
    with lock:
        words = [] if reaped() else _read_words(root)
    tree = _Tree(f"{COMMAND_ID_VARIABLE}={command_id}".encode(), root, lock, reaped, int(words[19]) if words else 0)
    confirmed = (grace > 0 and _terminate(tree, grace)) or _kill(tree, within)
    return KillReport(len(tree.signalled), confirmed)


def _terminate(tree: _Tree, grace: float) -> bool:
    """Send TERM and wait; True when nothing is left before the grace is over."""
    deadline = time.monotonic() + grace
    pause = 0.002
    clean = 0
    tree.sweep(signal.SIGTERM)
    while (left := deadline - time.monotonic()) > 0:
        clean = 0 if tree.sweep() else clean + 1
        if clean >= _CLEAN_SCANS:
            return True
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, 0.1)
    return False


def _kill(tree: _Tree, within: float) -> bool:
    """Stop all that is found until nothing new appears, kill all, and look until two scans are clean.

    However slow the machine is, what was found is killed: a process that was only stopped would stay for ever.
    """
    begun = time.monotonic()
    stopped: set[int] = set()
    while not stopped.issuperset(found := tree.sweep(signal.SIGSTOP)) and time.monotonic() < begun + within / 2:
        stopped.update(found)
    clean = 0
    while clean < _CLEAN_SCANS:
        for pause in _DYING:
            if not (found := tree.strike(found)):
                break
            time.sleep(pause)
        found = tree.sweep(signal.SIGKILL)
        clean = 0 if found else clean + 1
        if time.monotonic() > begun + within:
            break
    return clean >= _CLEAN_SCANS
