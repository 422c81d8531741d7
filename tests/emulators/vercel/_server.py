"""The server process: serves until it is told to end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import time
from typing import TYPE_CHECKING

from aiohttp import web

from tests.emulators._serving import announce, prepare, told_to_end

from ._app import build
from ._state import State

if TYPE_CHECKING:
    from ._switches import Switches


def serve(switches: Switches, *, user: str | None, ready: int) -> None:
    """Serve on 127.0.0.1 and write one JSON line with address and credentials to the descriptor `ready`."""
    root = prepare("vercel", user)
    team, project = f"team_{secrets.token_hex(12)}", f"prj_{secrets.token_hex(12)}"
    state = State(root=root, token=f"vcp_{secrets.token_hex(24)}", team=team, project=project, switches=switches)
    asyncio.run(_serve(state, ready))
    # Threads may still work; the guard ends what they started.
    os._exit(0)


def _oidc_token(state: State) -> str:
    """A token like those of the vendor's OIDC issuer; its claims name team and project. Nobody checks the signature."""
    claims = {"owner_id": state.team, "project_id": state.project, "exp": int(time.time()) + 12 * 3600}
    parts = ({"alg": "none"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, secrets.token_hex(16)])


async def _serve(state: State, ready: int) -> None:
    ended = told_to_end()
    state.loop = asyncio.get_running_loop()
    oidc = _oidc_token(state)
    state.tokens = (oidc,)
    runner = web.AppRunner(build(state), shutdown_timeout=0.2, handler_cancellation=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    host, port = runner.addresses[0][:2]
    facts = {"token": state.token, "team_id": state.team, "project_id": state.project, "oidc_token": oidc}
    announce(ready, {"url": f"http://{host}:{port}", "root": state.root, **facts})
    await ended.wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(runner.cleanup(), 2)
