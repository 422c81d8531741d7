"""The server process: serves until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import TYPE_CHECKING

from aiohttp import web

from tests.emulators._serving import announce, prepare, told_to_end

from ._app import build
from ._state import State

if TYPE_CHECKING:
    from ._switches import Switches


def serve(switches: Switches, *, user: str | None, ready: int) -> None:
    """Serve on 127.0.0.1 and write one JSON line with address and key to the descriptor `ready`."""
    root = prepare("daytona", user)
    asyncio.run(_serve(State(root=root, key=f"dtn_{secrets.token_hex(32)}", switches=switches), ready))
    # Threads may still wait for commands; the guard ends those.
    os._exit(0)


async def _serve(state: State, ready: int) -> None:
    ended = told_to_end()
    # An open Socket.IO connection would hold the default shutdown up for a minute.
    runner = web.AppRunner(
        build(state), shutdown_timeout=0.2, handler_cancellation=False, max_line_size=1 << 20, max_field_size=1 << 20
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    host, port = runner.addresses[0][:2]
    state.url = f"http://{host}:{port}"
    announce(ready, {"url": state.url, "key": state.key, "root": state.root})
    await ended.wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(runner.cleanup(), 2)
