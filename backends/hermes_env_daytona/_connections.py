"""HTTP clients for file transfers, each used by one transfer at a time.

The SDK sends the transfers of all threads through one pool, and under load that pool closes connections in use: a
thread that looks through it takes one that another has just begun to use for one that the server has ended (httpcore
1.0.9, `_assign_requests_to_connections`). The transfer then fails with EBADF or, where the descriptor has been opened
anew meanwhile, waits for its deadline; whether it arrived is not known. A connection that only one thread can reach is
closed by nobody else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from . import _sdk

_KEPT = 64
"""Clients that are kept for the next transfer; each holds one connection at most."""

_idle: list[tuple[int, Any]] = []
"""Process and client: a child that was forked has nothing to do with its parent's connections."""
_lock = threading.Lock()


@contextlib.contextmanager
def alone(fs: Any) -> Iterator[Any]:
    """The same file system of a sandbox, over a connection that nobody else has."""
    client = _take() or _sdk.transfer_client()
    try:
        yield type(fs)(fs._api_client, http_client=client)  # noqa: SLF001 - its constructor's own argument, kept there
    except BaseException:
        client.close()
        raise
    _give_back(client)


def _take() -> Any:
    """The client that was used last: its connection is the one most likely to live."""
    with _lock:
        while _idle:
            process, client = _idle.pop()
            if process == os.getpid():
                return client
    return None


def _give_back(client: Any) -> None:
    with _lock:
        is_kept = len(_idle) < _KEPT
        if is_kept:
            _idle.append((os.getpid(), client))
    if not is_kept:
        client.close()


@atexit.register
def _close_idle() -> None:
    while (client := _take()) is not None:
        client.close()
