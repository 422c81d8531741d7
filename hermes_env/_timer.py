"""One thread that calls functions at their time, for commands whose channel cannot wait with a bound."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class Alarm:
    """A function to be called at a time, unless it is cancelled before."""

    when: float
    order: int
    call: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Never call it; without effect when it was called already."""
        self.call = None


class _Timer:
    """A heap of alarms and the thread that waits for the next one; the thread starts with the first alarm."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[Alarm] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def call_at(self, when: float, call: Callable[[], None]) -> Alarm:
        alarm = Alarm(when, next(self._order), call)
        with self._changed:
            heapq.heappush(self._heap, alarm)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="hermes-env-timer", daemon=True)
                self._thread.start()
            self._changed.notify()
        return alarm

    def _run(self) -> None:
        while True:
            call = self._next()
            # A kill may take seconds: it must not hold up the next alarm.
            threading.Thread(target=call, name="hermes-env-alarm", daemon=True).start()

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while True:
                while self._heap and self._heap[0].call is None:
                    heapq.heappop(self._heap)
                wait = self._heap[0].when - time.monotonic() if self._heap else None
                if wait is not None and wait <= 0:
                    call = heapq.heappop(self._heap).call
                    if call is not None:
                        return call
                    continue
                self._changed.wait(None if wait is None else min(wait, 86_400.0))


_timer = _Timer()


def call_at(when: float, call: Callable[[], None]) -> Alarm:
    """Call a function on a thread of its own when `time.monotonic()` reaches `when`."""
    return _timer.call_at(when, call)
