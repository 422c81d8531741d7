"""A producer that calls, turned into an iterator."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hermes_env.files._bridge import bridged


def test_everything_in_order() -> None:
    """All chunks come out in order, more than fit at once."""
    chunks = [bytes([number]) for number in range(100)]

    def produce(put: Callable[[bytes], None]) -> None:
        for chunk in chunks:
            put(chunk)

    assert list(bridged(produce)) == chunks


def test_error_at_the_end() -> None:
    """What the producer raises is raised after what it gave."""

    def produce(put: Callable[[bytes], None]) -> None:
        put(b"1")
        raise ValueError("broke")

    iterator = bridged(produce)
    assert next(iterator) == b"1"
    with pytest.raises(ValueError, match="broke"):
        next(iterator)


def test_abandoned() -> None:
    """A consumer that stops ends the producer before `close` returns."""
    ended = threading.Event()

    def produce(put: Callable[[bytes], None]) -> None:
        try:
            while True:
                put(b"x")
        finally:
            ended.set()

    iterator = bridged(produce)
    assert next(iterator) == b"x"
    iterator.close()  # type: ignore[attr-defined]
    assert ended.is_set()
