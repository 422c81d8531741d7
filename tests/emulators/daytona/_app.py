"""The whole application: routes, authentication, and the emulator's own controls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import socketio  # type: ignore[import-untyped]  # ships no type information
from aiohttp import web

from tests.emulators import _controls
from tests.emulators._controls import CONTROLLED
from tests.emulators._http import MANNERS, Manners, Refusal, answer, swallow_drops

from . import _control, _toolbox
from ._answers import refuse
from ._state import STATE, State

_REPLAYED = 256 << 10
"""Bodies up to this are sent again by the vendor's proxy (libs/common-go/pkg/proxy/retry_transport.go)."""


def _endpoint(request: web.Request) -> str:
    return request.match_info.route.name or ""


def _sandbox(request: web.Request) -> str:
    return request.match_info.get("id", "")


def _authenticate(request: web.Request) -> None:
    if request.headers.get("Authorization") != f"Bearer {request.app[STATE].key}":
        raise Refusal(401, "UNAUTHORIZED", "Invalid credentials")


def build(state: State) -> web.Application:
    """The whole application."""
    # The framework's limits are the server's, not the vendor's: lift them out of the way.
    app = web.Application(middlewares=[swallow_drops, answer], client_max_size=1 << 40)
    app[STATE] = state
    app[CONTROLLED] = state
    app[MANNERS] = Manners(_endpoint, _sandbox, _authenticate, refuse, replayed=_REPLAYED)
    app.add_routes([*_controls.routes(), *_control.routes(), *_toolbox.routes()])
    server = socketio.AsyncServer(async_mode="aiohttp", cors_allowed_origins="*")

    async def connect(sid: str, environ: dict[str, Any], auth: dict[str, Any] | None) -> bool:
        return bool(auth) and cast("dict[str, Any]", auth).get("token") == state.key

    server.on("connect", connect)
    server.attach(app, socketio_path="api/socket.io")
    state.notify = server.emit
    app.cleanup_ctx.append(_janitor)
    return app


async def _janitor(app: web.Application) -> AsyncIterator[None]:
    """Stop idle sandboxes, as the vendor does."""
    task = asyncio.create_task(app[STATE].watch())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
