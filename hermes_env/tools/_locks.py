"""Editors of one process take turns at one file; whether it changed while they waited is known."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_env._errors import HermesEnvError

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment


@dataclass(slots=True)
class _Turn:
    lock: threading.RLock = field(default_factory=threading.RLock)
    changed: int = 0
    """The tick of the last change."""


class Turns:
    """Locks by environment and real path, for this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turns: dict[tuple[object, str], _Turn] = {}
        self._tick = 0
        self._running = 0

    @contextmanager
    def editing(self) -> Iterator[int]:
        """The time of one edit; gives its first tick."""
        with self._guard:
            self._running += 1
            tick = self._tick
        try:
            yield tick
        finally:
            with self._guard:
                self._running -= 1
                if not self._running:
                    self._turns.clear()

    @contextmanager
    def hold(self, place: object, paths: Iterable[str], since: int) -> Iterator[bool]:
        """Hold the turns of paths, in one order for all; tells whether another edit changed one since a tick."""
        with ExitStack() as stack:
            held = [stack.enter_context(self._one(place, path)) for path in sorted(set(paths))]
            yield any(turn.changed > since for turn in held)

    @contextmanager
    def _one(self, place: object, path: str) -> Iterator[_Turn]:
        with self._guard:
            turn = self._turns.setdefault((place, path), _Turn())
        with turn.lock:
            yield turn

    def note(self, place: object, paths: Iterable[str]) -> None:
        """These files were changed now."""
        with self._guard:
            self._tick += 1
            for path in paths:
                self._turns.setdefault((place, path), _Turn()).changed = self._tick


TURNS = Turns()
ACTIVE: set[str] = set()
"""Edits of this process that are under way: their journals are nobody else's to recover."""


def key_of(env: BaseEnvironment) -> object:
    """What two handles of one environment share, as far as that can be told."""
    if env.capabilities.isolation == "none":
        return env.backend_name
    try:
        return env.ref
    except HermesEnvError:
        return id(env)
