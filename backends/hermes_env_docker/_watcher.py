"""Ends the commands of a client that dies while it uses a container that is not held open by our keeper."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env import KILL_SCRIPT

if TYPE_CHECKING:
    from ._client import Hijacked

CLIENT_VARIABLE = "HERMES_ENV_CLIENT"
"""In the environment of every command of such a client."""
_LEAVE = b"leave\n"
_SCRIPT = (
    "read -r l&&exit;exec >/dev/null 2>&1;"
    f'for n in 1 2 3 4 5 6;do (set -- "$1" 0 {CLIENT_VARIABLE}\n{KILL_SCRIPT});sleep 0.5;done'
)
"""Its stdin is a lease: the engine closes it when the client is gone. It then kills every process that has the client's
id in its environment, for three seconds: the engine may still be starting one. A line says that all is well."""


class Watchers:
    """One watcher for each user who runs commands: even root may not look into another user's processes."""

    def __init__(self, start: Callable[[list[str], str | None], Hijacked]) -> None:
        """`start` runs an argv in the container as a user, with its stdin open."""
        self._start = start
        self._turn = threading.Lock()
        self._watching: dict[str | None, Hijacked] = {}
        self._client = secrets.token_hex(16)

    def watch(self, user: str | None) -> dict[str, str]:
        """See to it that this user's commands are watched; the variables that they need for it.

        Raises:
            HermesEnvError: The watcher cannot be started; nothing ran.
        """
        with self._turn:
            if user not in self._watching:
                self._watching[user] = self._start(["/bin/sh", "-c", _SCRIPT, "sh", self._client], user)
        return {CLIENT_VARIABLE: self._client}

    def leave(self) -> None:
        """End the watchers; they kill nothing."""
        with self._turn:
            for watcher in self._watching.values():
                with contextlib.suppress(OSError):
                    watcher.send(memoryview(_LEAVE))
                watcher.close()
            self._watching.clear()
