"""Waiting for what happens in another process."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
