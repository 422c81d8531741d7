"""The whole application: routes, authentication, and the emulator's own controls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from tests.emulators import _controls
from tests.emulators._controls import CONTROLLED
from tests.emulators._http import MANNERS, Manners, Refusal, answer, swallow_drops

from . import _control, _dispatch, _files
from ._answers import refuse
from ._state import STATE, State


def _endpoint(request: web.Request) -> str:
    """One path serves several calls: ``run`` waits and ``start`` does not, ``wait`` waits and ``command`` does not."""
    name, waits = request.match_info.route.name or "", request.query.get("wait") == "true"
    if name == "run" and not waits:
        return "start"
    return "wait" if name == "command" and waits else name


def _sandbox(request: web.Request) -> str:
    session = request.match_info.get("session")
    if session is None:
        return request.match_info.get("name", "")
    owner = request.app[STATE].owners.get(session)
    return "" if owner is None else owner.name


def _authenticate(request: web.Request) -> None:
    state = request.app[STATE]
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Bearer" or token not in (state.token, *state.tokens):
        raise Refusal(403, "forbidden", "Not authorized")
    if request.query.get("teamId") != state.team:
        raise Refusal(403, "forbidden", "Not authorized for this team")
    state.admit()


def build(state: State) -> web.Application:
    """The whole application."""
    # The framework's limits are the server's, not the vendor's: lift them out of the way.
    app = web.Application(middlewares=[swallow_drops, answer], client_max_size=1 << 40)
    app[STATE] = state
    app[CONTROLLED] = state
    app[MANNERS] = Manners(_endpoint, _sandbox, _authenticate, refuse)
    app.add_routes([*_controls.routes(), *_dispatch.routes(), *_files.routes(), *_control.routes()])
    app.cleanup_ctx.append(_janitor)
    return app


async def _janitor(app: web.Application) -> AsyncIterator[None]:
    """Stop sandboxes whose time is over, as the vendor does."""
    task = asyncio.create_task(app[STATE].watch())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
