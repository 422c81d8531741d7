"""Keeps a sandbox from being stopped as idle while commands run in it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger("hermes_env")

_ANSWER = 30.0


class Keeper:
    """Reports activity every `interval` seconds as long as a command runs; idle sandboxes are left to their limit."""

    def __init__(self, box: Any, interval: float) -> None:
        self._box = box
        self._interval = interval
        self._lock = threading.Lock()
        self._running = 0
        self._timer: threading.Timer | None = None

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While a command runs."""
        with self._lock:
            self._running += 1
            if self._timer is None:
                self._arm()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def _arm(self) -> None:
        self._timer = threading.Timer(self._interval, self._report)
        self._timer.daemon = True
        self._timer.start()

    def _report(self) -> None:
        with self._lock:
            self._timer = None
            if not self._running:
                return
            self._arm()
        try:
            self._box.refresh_activity(_ANSWER)
        except Exception as error:  # noqa: BLE001 - the command itself finds out when the sandbox is gone
            logger.debug("activity not reported: %s", type(error).__name__)

    def stop(self) -> None:
        """Report no more."""
        with self._lock:
            self._running = -(1 << 30)
            if self._timer is not None:
                self._timer.cancel()
