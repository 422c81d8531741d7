"""The server process: serves until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import secrets
import signal
import tempfile
from typing import TYPE_CHECKING

from aiohttp import web

from ._app import build
from ._state import State

if TYPE_CHECKING:
    from ._switches import Switches


def serve(switches: Switches, *, user: str | None, ready: int) -> None:
    """Serve on 127.0.0.1 and write one JSON line with address and key to the descriptor `ready`."""
    root = tempfile.mkdtemp(prefix="daytona-emulator-")
    os.chmod(root, 0o755)
    os.umask(0o022)
    if user is not None:
        _become(user, root)
    asyncio.run(_serve(State(root=root, key=f"dtn_{secrets.token_hex(32)}", switches=switches), ready))
    # Threads may still wait for commands; the guard ends those.
    os._exit(0)


def _become(user: str, root: str) -> None:
    entry = pwd.getpwnam(user)
    os.chown(root, entry.pw_uid, entry.pw_gid)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


async def _serve(state: State, ready: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    # An open Socket.IO connection would hold the default shutdown up for a minute.
    runner = web.AppRunner(
        build(state), shutdown_timeout=0.2, handler_cancellation=False, max_line_size=1 << 20, max_field_size=1 << 20
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    host, port = runner.addresses[0][:2]
    state.url = f"http://{host}:{port}"
    with os.fdopen(ready, "w") as file:
        file.write(json.dumps({"url": state.url, "key": state.key, "root": state.root}) + "\n")
    await ended.wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(runner.cleanup(), 2)
