"""The connections of an environment: commands wait here for a session, and lost connections are replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable, EnvironmentGone

from ._connect import SessionRefused
from ._link import Link

if TYPE_CHECKING:
    import paramiko

    from ._target import Target

_LOOK = 0.25
"""Seconds between looks at a cancellation while a command waits."""
_ATTEMPTS = 3
"""Connections lost one after the other, before a session was open, until a command is refused."""


class Session:
    """A session channel that belongs to one command."""

    def __init__(self, pool: Pool, link: Link, channel: paramiko.Channel) -> None:
        self.link, self.channel = link, channel
        self._pool = pool
        self._lock = threading.Lock()
        self._released = False

    def release(self) -> None:
        """Close it and let the next command have its place. Idempotent."""
        with self._lock:
            if self._released:
                return
            self._released = True
        if self.link.guard.suspect:
            # Whoever sends on a stalled connection waits for its end.
            threading.Thread(target=self.channel.close, daemon=True).start()
        else:
            self.channel.close()
        self._pool.closed(self.link)


class Pool:
    """Up to a number of links, made when they are needed."""

    def __init__(self, target: Target, size: int) -> None:
        self._target, self._size = target, size
        self._changed = threading.Condition()
        self._links: list[Link] = []
        self._making = 0
        self._closed = False

    def open(self) -> None:
        """Make the first link.

        Raises:
            BackendUnavailable: It cannot be made.
        """
        with self._changed:
            self._making += 1
        self._make()

    def acquire(self, cancelled: Callable[[], bool]) -> Session | None:
        """Wait for a session; None when it is no longer wanted.

        Raises:
            BackendUnavailable, EnvironmentGone: There will be none; nothing was sent.
        """
        lost = 0
        while not cancelled():
            link = self._choose()
            if link is None:
                continue
            try:
                channel = link.session()
            except SessionRefused:
                self._refused(link)
            except ConnectionError as error:
                link.drop()
                lost += 1
                if lost >= _ATTEMPTS:
                    problem = f"the connection to {self._target.name} was lost again and again"
                    raise BackendUnavailable(problem, reason="unreachable") from error
            else:
                with self._changed:
                    link.opened()
                return Session(self, link, channel)
        return None

    def _choose(self) -> Link | None:
        """A link with room, already counted; None after having waited for one."""
        with self._changed:
            if self._closed:
                raise EnvironmentGone("this environment was closed")
            self._links = [link for link in self._links if link.is_alive()]
            free = [link for link in self._links if link.has_room()]
            if free:
                link = min(free, key=lambda link: link.taken)
                link.taken += 1
                return link
            if len(self._links) + self._making >= self._size:
                self._changed.wait(_LOOK)
                return None
            self._making += 1
        self._make()
        return None

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

    def _refused(self, link: Link) -> None:
        with self._changed:
            must_split = link.refused()
            waits = not must_split and not link.has_room()
        if must_split:
            link.split()
        elif not waits:
            time.sleep(0.02)

    def closed(self, link: Link) -> None:
        """A session of this link was closed."""
        with self._changed:
            link.closed()
            self._changed.notify()

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
        for link in links:
            link.close()
