"""Turns "call this with every chunk" into an iterator, with a bounded number of chunks in flight."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEPTH = 8
"""Chunks in flight."""


class _Abandoned(Exception):
    """The consumer is gone."""


def bridged(produce: Callable[[Callable[[bytes], None]], None]) -> Iterator[bytes]:
    """Run `produce(put)` on a thread and yield what it puts; what it raises is raised at the end.

    The thread starts with the iteration. When the iterator is closed early, ``put`` raises in the thread, and the
    thread has ended when `close` returns.
    """
    chunks: queue.Queue[bytes | None] = queue.Queue(_DEPTH)
    abandoned = threading.Event()
    failure: list[BaseException] = []

    def put(chunk: bytes) -> None:
        if abandoned.is_set():
            raise _Abandoned
        chunks.put(chunk)

    def run() -> None:
        try:
            produce(put)
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer's thread
            failure.append(error)
        finally:
            chunks.put(None)

    thread = threading.Thread(target=run, name="hermes-env-read", daemon=True)
    thread.start()
    ended = False
    try:
        while (chunk := chunks.get()) is not None:
            yield chunk
        ended = True
    finally:
        abandoned.set()
        while not ended and chunks.get() is not None:
            pass
        thread.join()
    for error in failure:
        raise error
