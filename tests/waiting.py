"""Waiting for what happens in another thread or process: for a fact, with a bound that a busy machine keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 60.0, what: str = "it did not happen") -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: It did not within `seconds`; says `what`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


async def eventually(condition: Callable[[], object]) -> None:
    """`until`, while the loop goes on."""
    await asyncio.to_thread(until, condition)
