"""Keeps a provider from ending an environment as idle or overdue while commands run in it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from . import _timer

logger = logging.getLogger("hermes_env")


class Keeper:
    """Calls `report` from time to time as long as a command runs; an idle environment is left to its limit.

    Args:
        report: Tells the provider. What it raises is logged: the command itself finds out when its environment is gone.
        pause: Seconds until the next report, asked when a command starts and after each report.
    """

    def __init__(self, report: Callable[[], object], pause: Callable[[], float]) -> None:
        self._report = report
        self._pause = pause
        self._lock = threading.Lock()
        self._running = 0
        self._stopped = False
        self._alarm: _timer.Alarm | None = None

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While a command runs."""
        with self._lock:
            self._running += 1
            if self._alarm is None:
                self._arm()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    @property
    def waiting(self) -> bool:
        """Whether a report is to come, if a command still runs then."""
        with self._lock:
            return self._alarm is not None

    def _arm(self) -> None:
        if not self._stopped:
            self._alarm = _timer.call_at(time.monotonic() + self._pause(), self._due)

    def _due(self) -> None:
        with self._lock:
            self._alarm = None
            if not self._running or self._stopped:
                return
        try:
            self._report()
        except Exception as error:  # noqa: BLE001 - the command itself finds out when the environment is gone
            logger.debug("activity not reported: %s", type(error).__name__)
        with self._lock:
            if self._running and self._alarm is None:
                self._arm()

    def stop(self) -> None:
        """Report no more."""
        with self._lock:
            self._stopped = True
            if self._alarm is not None:
                self._alarm.cancel()
