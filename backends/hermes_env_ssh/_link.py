"""A connection to a host as commands see it: sessions with a queue in front, and a guard that ends commands."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable, KillReport, parse_kill_report

from . import _connect
from ._remote import CANNOT, GUARD_COMMAND, guard_script, new_link_id

if TYPE_CHECKING:
    import paramiko

    from ._target import Target

logger = logging.getLogger("hermes_env")

NO_LOGIN_SHELL = "the server could not start the account's login shell: nothing ran; it may have no process left"

_TRUST = 1.0
"""Seconds after which a connection that says nothing is asked before a command is entrusted to it."""
_LAG = 0.3
"""Seconds in which a server may still count a session that was closed: a refusal in them teaches nothing."""
_REFUSALS = 5
"""Refusals beside the guard's session after which the server is believed to allow only that one."""
_HOPELESS = 50
"""Refusals after which a connection that carries nothing else is believed to be of no use."""
_STARTING = 12
"""Sessions of a connection whose shells start at the same time.

A session of OpenSSH begins as a copy of the process that serves the connection, and wipes that process's buffers in the
copy. They grow with what waits at once: 500 sessions started together took twice the time of 500 in turn.
"""
_KILL = 2.0
"""Seconds for a kill, beside the grace, before it is tried without starting a process: bash as sh tries for 15."""
_KILL_HERE = 4.0
"""Seconds for that."""
_FAREWELL = 2.0
"""Seconds for the guard to leave at the end."""


class Guard:
    """A remote shell that kills for us, shows that the server lives, and ends all commands when we are gone."""

    def __init__(self, channel: paramiko.Channel, link_id: str, target: Target, give_up: Callable[[], None]) -> None:
        self._channel, self._target, self._give_up = channel, target, give_up
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[threading.Event, list[bytes]]] = {}
        self._heard = time.monotonic()
        self._noise = b""
        self.suspect = False
        """A question was not answered in time: nothing may wait for this connection any more."""
        _connect.request_exec(channel, GUARD_COMMAND)
        channel.settimeout(target.alive_interval)
        self._send(guard_script(link_id))
        self._thread = threading.Thread(target=self._run, name="hermes-env-ssh-guard", daemon=True)
        self._thread.start()

    def check(self) -> str:
        """Wait until the guard answers; the boot id of the host, if it has one.

        Raises:
            BackendUnavailable: It does not: the account cannot run commands.
        """
        answer = self._ask("p", new_link_id(), "", self._target.connect_timeout)
        if answer is not None:
            return answer.partition(b" ")[2].decode("ascii", "replace")
        if not self._channel.eof_received and not self._channel.get_transport().is_active():
            problem = f"the connection to {self._target.name} was lost at once"
            raise BackendUnavailable(problem, reason="unreachable")
        if _connect.is_refused(self._channel):
            raise BackendUnavailable(NO_LOGIN_SHELL, reason="capacity")
        said = self._noise.decode("utf-8", "replace").strip()[:300] or "nothing"
        problem = f"{self._target.name} did not run a command (it said: {said})"
        hint = "login scripts must not read stdin, and the account must be able to run /bin/sh"
        raise BackendUnavailable(f"{problem}: {hint}", reason="denied")

    def kill(self, tag: str, grace: float) -> KillReport:
        """End the whole tree of the command in a session.

        Where the account cannot have one more process there is no grace: waiting takes one.
        """
        tenths = str(min(int(grace * 10), 36_000))
        answer = self._ask("k", tag, tenths, _KILL + grace)
        if answer is None or answer == CANNOT:
            answer = self._ask("K", tag, "", _KILL_HERE)
        if answer is None:
            self.suspect = True
        return parse_kill_report(answer or b"")

    def heard(self) -> None:
        """Any data on the connection is a sign of life."""
        self._heard = time.monotonic()

    def close(self) -> None:
        """Let it leave by itself, so that nothing is left on the server."""
        threading.Thread(target=self._send, args=(b"q\n",), daemon=True).start()
        self._thread.join(_FAREWELL)

    def _ask(self, question: str, word: str, rest: str, timeout: float) -> bytes | None:
        answered = threading.Event()
        lines: list[bytes] = []
        with self._lock:
            self._answers[word] = (answered, lines)
        # On a thread of its own: a stalled connection blocks whoever sends.
        line = f"{question} {word} {rest}\n".encode()
        threading.Thread(target=self._send, args=(line,), daemon=True).start()
        answered.wait(timeout)
        with self._lock:
            self._answers.pop(word, None)
        return lines[0] if lines else None

    def _send(self, line: bytes) -> None:
        view = memoryview(line)
        with contextlib.suppress(OSError):
            while view:
                view = view[_connect.send(self._channel, view) :]

    def _run(self) -> None:
        rest = b""
        while True:
            try:
                data = self._channel.recv(4096)
            except TimeoutError:
                self._beat()
                continue
            if not data:
                break
            self.heard()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._answer(line)
        self._noise = self._noise or rest
        with self._lock:
            for answered, _ in self._answers.values():
                answered.set()
        self._give_up()

    def is_quiet(self) -> bool:
        """Whether nothing came for so long that the connection may be dead without our knowing."""
        return time.monotonic() > self._heard + _TRUST

    def ping(self) -> bool:
        """Whether the server answers now."""
        return self._ask("p", new_link_id(), "", self._target.connect_timeout) is not None

    def _answer(self, line: bytes) -> None:
        word, _, text = line.partition(b" ")
        with self._lock:
            waiting = self._answers.get(word.decode("ascii", "replace"))
        if waiting is None:
            self._noise = (self._noise + line + b"\n")[:4096]
            return
        waiting[1].append(text)
        waiting[0].set()

    def _beat(self) -> None:
        """Ask for a sign of life; give the connection up when none came for too long."""
        silence = time.monotonic() - self._heard
        limit = self._target.alive_interval * self._target.alive_count
        if silence > limit:
            logger.debug("no sign of life for %.0f s: the connection is given up", silence)
            self.suspect = True
            self._give_up()
            return
        threading.Thread(target=self._send, args=(b"p beat\n",), daemon=True).start()


class Link:
    """One connection for commands, and its guard: on the same connection where the server allows two sessions."""

    def __init__(self, target: Target) -> None:
        self.id = new_link_id()
        self._target = target
        self._lock = threading.Lock()
        self._control = self._data = _connect.connect(target)
        try:
            self.guard = self._make_guard()
            self.boot_id = self.guard.check()
        except BaseException:
            self.drop()
            raise
        self.taken = 0
        """Sessions that are open or being asked for."""
        self.open = 0
        self.limit: int | None = 1 if self._control.mixes_up_sessions else None
        """Sessions that the server was seen to allow; None while it has not refused any."""
        self.starting = threading.Semaphore(_STARTING)
        self._refusals = 0
        self._refused_since = self._released = 0.0

    def _make_guard(self) -> Guard:
        try:
            channel = self._control.open_session(self._target.connect_timeout)
            return Guard(channel, self.id, self._target, self.drop)
        except _connect.SessionRefused as error:
            problem = f"{self._target.name} opens no session: {error.__cause__}"
            raise BackendUnavailable(problem, reason="denied") from error
        except OSError as error:
            problem = f"the connection to {self._target.name} was lost at once"
            raise BackendUnavailable(problem, reason="unreachable") from error

    def is_alive(self) -> bool:
        """Whether the connection was not lost, as far as is known here."""
        return self._control.is_alive() and self._data.is_alive()

    def has_room(self, places: int) -> bool:
        """Whether so many more sessions may be asked for."""
        return self.limit is None or self.taken + places <= self.limit

    @property
    def connection(self) -> _connect.Connection:
        """Where commands get their sessions now."""
        return self._data

    def opened(self) -> None:
        """Count a session that was opened."""
        self._refusals = 0
        self.open += 1
        if self.limit is not None:
            self.limit = max(self.limit, self.open)

    def refused(self, connection: _connect.Connection) -> bool:
        """Learn from a refusal; whether the guard has to be left alone on its connection.

        Raises:
            BackendUnavailable: ``capacity``: the server opens no session at all.
        """
        self.taken -= 1
        if connection is not self._data:
            return False
        if self._refusals == 0:
            self._refused_since = time.monotonic()
        self._refusals += 1
        if self.open:
            if self._refusals > 2 or time.monotonic() > self._released + _LAG:
                self.limit = self.open
            return False
        alone = self._data is not self._control
        if alone and self._refusals > _HOPELESS:
            problem = f"{self._target.name} opens no session for a command"
            raise BackendUnavailable(problem, reason="capacity")
        # Sessions that others have just got may not be counted yet.
        return not alone and self._refusals >= _REFUSALS and time.monotonic() > self._refused_since + _LAG

    def split(self) -> None:
        """Leave the first connection to the guard: a server with ``MaxSessions 1`` has no room for commands there."""
        with self._lock:
            if self._data is self._control:
                self._data = _connect.connect(self._target)
                self._refusals = 0

    def closed(self) -> None:
        """Count a session that was closed."""
        self.taken -= 1
        self.open -= 1
        self._released = time.monotonic()

    def drop(self) -> None:
        """End the connections at once."""
        self._control.close()
        self._data.close()

    def close(self) -> None:
        """End them in peace: the guard leaves first."""
        if self.is_alive() and not self.guard.suspect:
            self.guard.close()
        self.drop()
