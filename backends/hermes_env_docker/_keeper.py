"""The process that holds a container open: it knows whether its client lives, and ends commands without a fork."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from typing import TYPE_CHECKING

from hermes_env import FORKLESS_KILL, BackendUnavailable, KillReport, parse_kill_report

from ._frames import FrameReader

if TYPE_CHECKING:
    from ._client import Hijacked

KEEPER = (
    'up(){ read -r u x </proc/uptime;u=${u%.*};};up;e=$((u+$1));(sleep "$1";kill -s KILL $$)&\n'
    f'end(){{ echo "$1 begins"\nset -- "$1" 0\n{FORKLESS_KILL}\n}}\n'
    "sleep 0||exit;echo ready;name=hermes-env-orphan;"
    'while read -r w i;do case $w in keep) name=hermes-env-detached;break;;kill) end "$i" 2>/dev/null;;esac;done;'
    "[ $name = hermes-env-detached ]||kill -s KILL -- -1;up;"
    'exec /bin/sh -c \'sleep "$1";:\' "$name" $((e-u))'
)
"""Holds the container open for ``$1`` seconds; the engine removes it when the keeper ends.

Its standard input is a lease: the engine closes it when the client that made the container is gone, however it died.
The keeper then kills every process that it may (all of them in one call: nothing escapes by forking), and keeps the
container for who wants to look into it, or to reap it, until its time is over. ``keep`` on the lease says that the
client leaves on purpose. ``kill ID`` ends one command, by builtins only: also when no process can be started any more.
"""
_READY = 60
"""Seconds for the keeper to say that it runs."""
_KILL = 5.0
"""Seconds for one kill; after that a second exec may do better."""


class Keeper:
    """One client's line to the keeper of its container; thread-safe."""

    def __init__(self, lease: Hijacked) -> None:
        self._lease = lease
        self._reader = FrameReader(lease.early)
        self._said = b""
        self._turn = threading.Lock()
        self._ended = False

    def await_ready(self, what: str) -> None:
        """Wait until it says that it runs: a program that is not in the image fails only after the start.

        Raises:
            BackendUnavailable: It does not run.
        """
        end = time.monotonic() + _READY
        with self._turn:
            while not self._said.endswith(b"ready\n"):
                if not self._listen(end):
                    raise self._not_ready(what)
            self._said = b""

    def _not_ready(self, what: str) -> BackendUnavailable:
        if not self._ended:
            return BackendUnavailable(f"{what}: started, and does not say so", reason="unreachable")
        text = self._said.decode("utf-8", "replace").strip()
        needs = "it needs /bin/sh and sleep; with entrypoint= its files can be reached"
        return BackendUnavailable(f"{what}: {needs} ({text})", reason="not_installed")

    def _listen(self, end: float) -> bool:
        """Take what it says, waiting for it; False at the end of the connection or of the time."""
        self._said += b"".join(data for number, data in self._reader.frames() if number == 1)
        poller = select.poll()
        poller.register(self._lease, select.POLLIN)
        if not self._lease.pending() and not poller.poll(max(0.0, end - time.monotonic()) * 1000):
            return False
        self._receive()
        return not self._ended

    def _receive(self) -> None:
        try:
            count = self._lease.receive(self._reader.free())
        except BlockingIOError:
            # A part of a TLS record.
            return
        except OSError:
            count = 0
        if count == 0:
            self._ended = True
        self._reader.filled(count)
        self._said += b"".join(data for number, data in self._reader.frames() if number == 1)

    def ended(self) -> bool:
        """Whether the connection to it is lost; one that is busy with a kill is there."""
        if not self._turn.acquire(blocking=False):
            return self._ended
        try:
            while not self._ended and self._has_said_more():
                self._receive()
            return self._ended
        finally:
            self._turn.release()

    def _has_said_more(self) -> bool:
        poller = select.poll()
        poller.register(self._lease, select.POLLIN)
        return self._lease.pending() or bool(poller.poll(0))

    def kill(self, command_id: str) -> KillReport | None:
        """End one command of the keeper's own user; None when it gives no answer."""
        end = time.monotonic() + _KILL
        begins = f"{command_id} begins\n".encode()
        with self._turn:
            self._said = b""
            try:
                self._lease.send(memoryview(f"kill {command_id}\n".encode()))
            except OSError:
                return None
            while True:
                _, found, answer = self._said.partition(begins)
                if found and answer.endswith(b"\n"):
                    return parse_kill_report(answer)
                if not self._listen(end):
                    return None

    def leave(self) -> None:
        """Tell it that the client goes on purpose, and the container stays."""
        with contextlib.suppress(OSError), self._turn:
            # Without an engine nothing is left that could be told.
            self._lease.send(memoryview(b"keep\n"))

    def close(self) -> None:
        """Give the connection up; for the keeper its client is gone."""
        self._lease.close()
