"""The life of an environment: opened once, closed once, and the commands that run in between."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from ._errors import EnvironmentGone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._process import Process

_AT_ONCE = 16
"""Kills at the same time: one may wait for its provider, or for a shell that does not come; closing waits for all."""


class Life:
    """State shared by all threads that use one environment. The lock guards transitions, never I/O."""

    def __init__(self) -> None:
        self.opened = False
        self.closed = False
        self.joined = False
        """Attached to what another client made: closing only lets go of it."""
        self._lock = threading.Lock()
        self._running: set[Process] = set()

    @property
    def usable(self) -> bool:
        """Open, and not closed yet."""
        return self.opened and not self.closed

    def begin(self, *steps: Callable[[], None], undo: Callable[[], None]) -> bool:
        """Take the steps that open an environment, once; False when it is open already.

        Raises:
            EnvironmentGone: It was closed.
        """
        with self._lock:
            if self.closed:
                raise EnvironmentGone("this environment was closed: open a new one")
            if self.opened:
                return False
            self.opened = True
        try:
            for step in steps:
                step()
        except BaseException:
            self.closed = True
            undo()
            raise
        return True

    def end(self, *steps: Callable[[], None], after: Callable[[], None]) -> bool:
        """Kill what runs, then take the steps that close an environment, once; False when it was closed already.

        Every step is taken, whatever an earlier one raised.
        """
        with self._lock:
            first = self.usable
            self.closed = True
            running = list(self._running)
        if not first:
            return False
        with ExitStack() as all_steps:
            all_steps.callback(after)
            for step in reversed(steps):
                all_steps.callback(step)
            _kill(running)
        return True

    def kill_all(self) -> None:
        """Kill what runs, and leave the environment open."""
        with self._lock:
            running = list(self._running)
        _kill(running)

    def require_usable(self) -> None:
        """Raise unless it is open.

        Raises:
            EnvironmentGone: The environment is not open.
        """
        if not self.usable:
            raise EnvironmentGone("this environment is not open: use `with`, or call open()")

    def admit(self, process: Process) -> None:
        """Register a command that is about to run.

        Raises:
            EnvironmentGone: The environment is not open.
        """
        with self._lock:
            self.require_usable()
            self._running.add(process)

    def forget(self, process: Process) -> None:
        """A command has ended."""
        with self._lock:
            self._running.discard(process)


def _kill(running: Sequence[Process]) -> None:
    if len(running) > 1:
        from concurrent.futures import ThreadPoolExecutor

        # At the end of the program there are no new threads: then one after the other, which is right for all.
        with (
            suppress(RuntimeError),
            ThreadPoolExecutor(min(_AT_ONCE, len(running)), "hermes-env-close") as threads,
        ):
            list(threads.map(lambda process: process.kill(), running))
            return
    for process in running:
        process.kill()
