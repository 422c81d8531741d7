"""The connections of an environment: commands wait here for a session, and lost connections are replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable, EnvironmentGone

from ._connect import SessionRefused, close_channel, is_refused, request_exec, send
from ._link import NO_LOGIN_SHELL, Link
from ._remote import COMMAND_LINE, greeting, new_link_id

if TYPE_CHECKING:
    import paramiko

    from ._connect import Connection
    from ._target import Target

_LOOK = 0.25
"""Seconds between looks at a cancellation while a command waits."""
_TURNS = 4
"""Such looks for which a session waits for its turn to start: a login shell may be slow, or never come."""
_LAG = 0.02
"""Seconds before asking again: a server takes a moment to forget a session that was closed."""
_SPARE_LIFE = 60.0
"""Seconds that a spare session may wait: a command must not find the login environment of long ago."""
_FAREWELL = 2.0
"""Seconds for the spare session to be closed in an orderly way."""
_ATTEMPTS = 3
"""Connections lost one after the other, before a session was open, until a command is refused."""


class Session:
    """A session channel that belongs to one command."""

    def __init__(self, pool: Pool, link: Link, channel: paramiko.Channel) -> None:
        self.link, self.channel = link, channel
        self.tag = f"{link.id}.{new_link_id()}"
        """Marks every process of the session, in the variable `LINK_VARIABLE`."""
        self.nonce = new_link_id()
        self.has_turn = False
        """Counts among those of the link that are starting."""
        self._pool = pool
        self._lock = threading.Lock()
        self._released = False
        self._opened = time.monotonic()

    def prepare(self, timeout: float) -> None:
        """Bring the session as far as it gets without a command.

        Raises:
            BackendUnavailable: ``capacity``: the server starts no login shell, or it takes nothing in so many seconds.
            ConnectionError: The link was lost.
        """
        self.channel.settimeout(timeout)
        view = memoryview(greeting(self.nonce, self.tag))
        try:
            while view:
                view = view[send(self.channel, view) :]
        except BrokenPipeError:
            if self.channel.eof_received:
                # A login shell that has ended already: what it said becomes the error of the command that gets it.
                return
            if is_refused(self.channel) or (self.link.is_alive() and self.link.guard.ping()):
                raise BackendUnavailable(NO_LOGIN_SHELL, reason="capacity") from None
            raise

    def is_fresh(self) -> bool:
        """Whether a command can still be given to it."""
        young = time.monotonic() < self._opened + _SPARE_LIFE
        return young and not (self.channel.closed or self.channel.eof_received) and self.link.is_alive()

    def started(self) -> None:
        """Its shell runs, or never will: another session may start. Idempotent."""
        with self._lock:
            had_turn, self.has_turn = self.has_turn, False
        if had_turn:
            self.link.starting.release()

    def sent(self) -> None:
        """The command is on its way."""
        self._pool.want_spare()

    def release(self) -> None:
        """Close it and let the next command have its place. Idempotent."""
        self.started()
        with self._lock:
            if self._released:
                return
            self._released = True
        if self.link.guard.suspect:
            # Whoever sends on a stalled connection waits for its end.
            threading.Thread(target=close_channel, args=(self.channel,), daemon=True).start()
        else:
            close_channel(self.channel)
        self._pool.closed(self.link)


class Pool:
    """Up to a number of links, made when they are needed, and one spare session.

    The spare is a session whose login shell runs already: a command that gets it costs one round trip, where one
    that must open its own costs three (open, exec, and only then does OpenSSH take input).
    """

    def __init__(self, target: Target, size: int) -> None:
        self._target, self._size = target, size
        self._changed = threading.Condition()
        self._links: list[Link] = []
        self._making = 0
        self._closed = False
        self._spare: Session | None = None
        self._warming = self._promised = False
        """A spare session is being opened; a command waits for it."""
        self._warm_until = 0.0
        self._warmer = threading.Thread(target=self._keep_warm, name="hermes-env-ssh-spare", daemon=True)

    def open(self) -> str:
        """Make the first link; the boot id of the host, if it has one.

        Raises:
            BackendUnavailable: It cannot be made.
        """
        with self._changed:
            self._making += 1
        self._make()
        self._warmer.start()
        return self._links[0].boot_id

    # -- sessions -------------------------------------------------------------------------------------------------

    def acquire(self, cancelled: Callable[[], bool]) -> Session | None:
        """Wait for a session; None when it is no longer wanted.

        Raises:
            BackendUnavailable, EnvironmentGone: There will be none; nothing was sent.
        """
        lost = 0
        while not cancelled():
            spare, link = self._choose()
            try:
                session = self._checked(spare) if link is None else self._open_in_turn(link, cancelled)
            except ConnectionError as error:
                lost += 1
                if lost >= _ATTEMPTS:
                    problem = f"the connection to {self._target.name} was lost again and again"
                    raise BackendUnavailable(problem, reason="unreachable") from error
                continue
            if session is not None:
                return session
        return None

    def _choose(self) -> tuple[Session | None, Link | None]:
        """The spare session, or a link with room, already counted; neither after having waited for one."""
        with self._changed:
            if self._closed:
                raise EnvironmentGone("this environment was closed")
            # The next spare comes after the command: both go through the same hands.
            self._warm_until = 0.0
            if not self._is_spare_settled():
                return None, None
            spare = self._take_spare()
            if spare is not None and spare.is_fresh():
                return spare, None
            link = self._with_room(1)
            if link is not None or spare is not None:
                # A spare that is too old goes, and its place is free for the next look.
                pass
            elif len(self._links) + self._making >= self._size:
                self._changed.wait(_LOOK)
                return None, None
            else:
                self._making += 1
        if spare is not None:
            spare.release()
        elif link is None:
            self._make()
        return None, link

    def _is_spare_settled(self) -> bool:
        """Wait for a spare that is being opened, ahead of all others: it is ready before another one could be."""
        if self._warming and not self._promised:
            self._promised = True
            self._changed.wait_for(lambda: not self._warming or self._closed, _LOOK)
            self._promised = False
            return not self._warming
        return True

    def _take_spare(self) -> Session | None:
        if self._promised:
            return None
        spare, self._spare = self._spare, None
        return spare

    def _checked(self, spare: Session | None) -> Session | None:
        """The spare session, on a connection that has just shown that it lives.

        Raises:
            ConnectionError: The link was lost.
        """
        if spare is not None and spare.link.guard.is_quiet() and not spare.link.guard.ping():
            spare.link.drop()
            spare.release()
            raise ConnectionError("the SSH connection was lost")
        return spare

    def _with_room(self, places: int) -> Link | None:
        """The living link with the fewest sessions that has so many places left, with one session counted."""
        self._links = [link for link in self._links if link.is_alive()]
        free = [link for link in self._links if link.has_room(places)]
        if not free:
            return None
        link = min(free, key=lambda link: link.taken)
        link.taken += 1
        return link

    def _open_in_turn(self, link: Link, cancelled: Callable[[], bool]) -> Session | None:
        """As `_open_on`, when few enough others are starting; one that hangs does not hold up the rest for long.

        Raises:
            ConnectionError: The link was lost.
        """
        has_turn = False
        for _ in range(_TURNS):
            if has_turn or cancelled():
                break
            has_turn = link.starting.acquire(timeout=_LOOK)
        session = None
        try:
            session = self._open_on(link)
        finally:
            if session is not None:
                session.has_turn = has_turn
            elif has_turn:
                link.starting.release()
        return session

    def _open_on(self, link: Link) -> Session | None:
        """Open a session and make it ready for a command; None when the server refuses it.

        Raises:
            ConnectionError: The link was lost.
        """
        connection = link.connection
        try:
            channel = connection.open_session(self._target.connect_timeout)
            request_exec(channel, COMMAND_LINE)
        except SessionRefused:
            self._refused(link, connection)
            return None
        except ConnectionError:
            link.drop()
            raise
        with self._changed:
            link.opened()
        session = Session(self, link, channel)
        try:
            session.prepare(self._target.connect_timeout)
        except ConnectionError:
            link.drop()
            session.release()
            raise
        except BackendUnavailable:
            session.release()
            raise
        return session

    def _refused(self, link: Link, connection: Connection) -> None:
        with self._changed:
            must_split = link.refused(connection)
            must_wait = not link.has_room(1)
        if must_split:
            link.split()
        elif not must_wait:
            time.sleep(_LAG)

    def closed(self, link: Link) -> None:
        """A session of this link was closed."""
        with self._changed:
            link.closed()
            self._changed.notify_all()

    # -- the spare ------------------------------------------------------------------------------------------------

    def want_spare(self) -> None:
        """A command has been sent: another one may follow it."""
        with self._changed:
            self._warm_until = time.monotonic() + _SPARE_LIFE
            self._changed.notify_all()

    def _keep_warm(self) -> None:
        while True:
            with self._changed:
                link = None
                while not self._closed and not self._is_stale() and (link := self._to_warm()) is None:
                    self._changed.wait(_SPARE_LIFE if self._spare else None)
                stale, self._spare = (self._spare, None) if link is None else (None, self._spare)
                closed = self._closed
                self._warming = link is not None
            if stale is not None:
                stale.release()
            if closed:
                return
            if link is not None:
                self._warm(link)

    def _is_stale(self) -> bool:
        return self._spare is not None and not self._spare.is_fresh()

    def _to_warm(self) -> Link | None:
        """Where a spare session should be opened now; one place stays free for whoever cannot wait."""
        if self._spare is not None or time.monotonic() > self._warm_until:
            return None
        return self._with_room(2)

    def _warm(self, link: Link) -> None:
        session, failed = None, True
        with contextlib.suppress(ConnectionError, BackendUnavailable):
            session = self._open_on(link)
            failed = False
        with self._changed:
            self._warming = False
            if failed:
                # The next command finds out what is wrong.
                self._warm_until = 0.0
            if not self._closed and self._spare is None:
                self._spare, session = session, None
            self._changed.notify_all()
        if session is not None:
            session.release()

    # -- links ----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        link = None
        try:
            link = Link(self._target)
        finally:
            with self._changed:
                self._making -= 1
                if link is not None and not self._closed:
                    self._links.append(link)
                    link = None
                self._changed.notify_all()
            if link is not None:
                link.close()

    def answers(self) -> bool:
        """Whether a server answers, if need be on a new connection."""
        with self._changed:
            links = [link for link in self._links if link.is_alive()]
            if not links and not self._closed and not self._making:
                self._making += 1
            elif not links:
                return False
        if links:
            return any(link.guard.ping() for link in links)
        try:
            self._make()
        except BackendUnavailable:
            return False
        return True

    def close(self) -> None:
        """End every link."""
        with self._changed:
            self._closed = True
            links, self._links = self._links, []
            self._changed.notify_all()
        if self._warmer.ident is not None:
            # It may be waiting for a server that has gone silent: then closing its link ends the wait.
            self._warmer.join(_FAREWELL)
        for link in links:
            link.close()
