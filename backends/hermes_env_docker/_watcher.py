"""Ends the commands of a client that dies while it uses a container that is not held open by our keeper."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hermes_env import KILL_SCRIPT

if TYPE_CHECKING:
    from ._client import Hijacked

CLIENT_VARIABLE = "HERMES_ENV_CLIENT"
"""In the environment of every command of such a client."""
_LEAVE = b"leave\n"
_SCRIPT = (
    "read -r l&&exit;exec >/dev/null 2>&1;"
    f'for n in 1 2 3 4 5 6;do (set -- "$1" 5 {CLIENT_VARIABLE}\n{KILL_SCRIPT});sleep 0.5;done'
)
"""Its stdin is a lease: the engine closes it when the client is gone. It then ends every process that has its
mark in its environment, for three seconds: the engine may still be starting one. A line says that all is well."""


class Execs(Protocol):
    """What watchers need of the environment."""

    def start_watcher(self, argv: list[str], user: str | None) -> tuple[str, Hijacked]:
        """Run an argv in the container as a user, with its stdin open; the exec's id and connection."""

    def is_known(self, exec_id: str) -> bool:
        """Whether the engine knows this exec; one that was started anew does not."""


@dataclass(frozen=True, slots=True)
class _Watcher:
    ident: str
    connection: Hijacked
    mark: str
    """Its own: one whose connection was lost still kills for a while, and must not see the commands of the next."""


class Watchers:
    """One watcher for each user who runs commands: even root may not look into another user's processes."""

    def __init__(self, execs: Callable[[], Execs]) -> None:
        self._execs = execs
        self._turn = threading.Lock()
        self._watching: dict[str | None, _Watcher] = {}

    def watch(self, user: str | None) -> dict[str, str]:
        """See to it that this user's commands are watched; the variables that they need for it.

        Raises:
            HermesEnvError: The watcher cannot be started; nothing ran.
        """
        with self._turn:
            watcher = self._watching.get(user)
            if watcher is not None and watcher.connection.ended():
                self._lost(watcher)
            if user not in self._watching:
                self._watching[user] = self._start(user, secrets.token_hex(16))
            return {CLIENT_VARIABLE: self._watching[user].mark}

    def broken(self) -> bool:
        """Whether the way to the container was lost, as far as watchers can tell."""
        with self._turn:
            return any(watcher.connection.ended() for watcher in self._watching.values())

    def _start(self, user: str | None, mark: str) -> _Watcher:
        return _Watcher(*self._execs().start_watcher(["/bin/sh", "-c", _SCRIPT, "sh", mark], user), mark)

    def _lost(self, watcher: _Watcher) -> None:
        """Forget a watcher that ended.

        One that the engine no longer knows was left by its death: such watchers never see the end of their stdin, and
        the commands beside them run on with nobody to read them. They are ended now, by watchers that see it at once.
        """
        if self._execs().is_known(watcher.ident):
            self._watching = {user: one for user, one in self._watching.items() if one is not watcher}
            watcher.connection.close()
            return
        for user, one in self._watching.items():
            one.connection.close()
            self._start(user, one.mark).connection.close()
        self._watching.clear()

    def leave(self) -> None:
        """End the watchers; they kill nothing."""
        with self._turn:
            for watcher in self._watching.values():
                with contextlib.suppress(OSError):
                    watcher.connection.send(memoryview(_LEAVE))
                watcher.connection.close()
            self._watching.clear()
