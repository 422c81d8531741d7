"""The server process: serves until it is told to end."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # not to be looked for as another user
import contextlib
import os
import resource
from typing import TYPE_CHECKING

from aiohttp import web
from modal_proto.api_grpc import ModalClientBase

from tests.emulators import _controls
from tests.emulators._controls import CONTROLLED
from tests.emulators._serving import announce, prepare, told_to_end

from . import _control
from ._place import can_isolate, install
from ._service import Service
from ._state import State
from ._worker import CountingServer, listener

if TYPE_CHECKING:
    from ._switches import Switches


def serve(switches: Switches, *, user: str | None, ready: int) -> None:
    """Serve on 127.0.0.1 and write one JSON line with addresses and token to the descriptor `ready`."""
    root = prepare("modal", user)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    install(root)
    asyncio.run(_serve(root, switches, ready))
    os._exit(0)


async def revoke(request: web.Request) -> web.Response:
    """Tokens of workers are worth nothing from now on."""
    request.app[_STATE].mint.generation += 1
    return web.json_response({})


_STATE: web.AppKey[State] = web.AppKey("state", State)


async def _serve(root: str, switches: Switches, ready: int) -> None:
    ended = told_to_end()
    state = State(root=root, switches=switches)
    app = web.Application(client_max_size=1 << 20)
    app[CONTROLLED] = app[_STATE] = state
    app.add_routes([*_controls.routes(), web.post("/_emulator/revoke", revoke)])
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    control_host, control_port = runner.addresses[0][:2]
    link = listener()
    server = CountingServer(Service(ModalClientBase, _control.WORK, state, _control.authenticate))
    await server.start(sock=link, backlog=1024)
    watch = asyncio.create_task(state.watch())
    facts = {
        "url": f"http://127.0.0.1:{link.getsockname()[1]}",
        "control": f"http://{control_host}:{control_port}",
        "root": root,
        "isolates": switches.isolated and can_isolate(root),
        "token_id": state.token_id,
        "token_secret": state.token_secret,
    }
    announce(ready, facts)
    await ended.wait()
    watch.cancel()
    server.cut()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(state.close(), 2)
