"""The HTTP side: routes, authentication, faults, and the emulator's own controls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import socketio  # type: ignore[import-untyped]  # ships no type information
from aiohttp import web

from tests.emulators import _controls
from tests.emulators._controls import CONTROLLED

from . import _control, _toolbox
from ._answers import Refusal, refuse
from ._state import STATE, State

if TYPE_CHECKING:
    from tests.emulators._faults import Fault

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_REPLAYED = 256 << 10
"""Bodies up to this are sent again by the vendor's proxy (libs/common-go/pkg/proxy/retry_transport.go)."""


def endpoint_of(request: web.Request) -> str:
    """Name of an endpoint in logs and faults."""
    return request.match_info.route.name or "unknown"


@web.middleware
async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Authentication, faults, log, and the shape of error answers."""
    state = request.app[STATE]
    name = endpoint_of(request)
    if request.path.startswith("/_emulator/") or name == "unknown":
        return await handler(request)
    sandbox = request.match_info.get("id", "")
    entry = state.log.add(name, sandbox, at=time.monotonic(), size=request.content_length or 0)
    faults = state.faults.take(name, sandbox)
    try:
        response = await _meet(request, handler, faults, entry)
    except Refusal as refusal:
        response = refuse(refusal, request, style=state.switches.errors)
    entry["status"] = response.status
    return response


async def _meet(
    request: web.Request, handler: Handler, faults: list[Fault], entry: dict[str, Any]
) -> web.StreamResponse:
    request["faults"], request["entry"] = faults, entry
    for fault in faults:
        await _before(request, fault)
    _authenticate(request)
    for fault in faults:
        if fault.kind == "drop_during":
            await _drop_during(request, handler, fault)
    response = await handler(request)
    for fault in faults:
        response = await _after(request, handler, fault) or response
    return response


async def _before(request: web.Request, fault: Fault) -> None:
    if fault.kind == "delay":
        await asyncio.sleep(fault.value)
    elif fault.kind == "hold_before":
        await request.app[STATE].faults.hold(endpoint_of(request))
    elif fault.kind == "drop_before":
        drop(request, reset=fault.reset)
    elif fault.kind == "status":
        raise Refusal(int(fault.value), "EMULATED", f"emulated answer {int(fault.value)}")


async def _drop_during(request: web.Request, handler: Handler, fault: Fault) -> None:
    work = asyncio.ensure_future(handler(request))
    background = request.app[STATE].background
    background.add(work)
    work.add_done_callback(background.discard)
    await asyncio.sleep(fault.value)
    drop(request, reset=fault.reset)


async def _after(request: web.Request, handler: Handler, fault: Fault) -> web.StreamResponse | None:
    """What comes after the work; an answer that takes the place of the first one."""
    if fault.kind == "replay" and (request.content_length or 0) <= _REPLAYED:
        return await handler(request)
    if fault.kind == "hold_after":
        await request.app[STATE].faults.hold(endpoint_of(request))
    elif fault.kind == "drop_after":
        drop(request, reset=fault.reset)
    return None


def _authenticate(request: web.Request) -> None:
    if request.headers.get("Authorization") != f"Bearer {request.app[STATE].key}":
        raise Refusal(401, "UNAUTHORIZED", "Invalid credentials")


class Dropped(Exception):
    """The connection was closed on purpose."""


def drop(request: web.Request, *, reset: bool) -> None:
    """Close the connection under the client.

    Raises:
        Dropped: Always.
    """
    if request.transport is not None:
        if reset:
            link = request.transport.get_extra_info("socket")
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    raise Dropped


@web.middleware
async def swallow_drops(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A connection that was dropped, or that its client left, has no answer."""
    try:
        return await handler(request)
    except (Dropped, ConnectionResetError):
        return web.Response()


async def body_of(request: web.Request) -> AsyncIterator[bytes]:
    """The body of an upload, as faults let it through."""
    state, seen = request.app[STATE], 0
    abort = next((fault for fault in request["faults"] if fault.kind == "abort"), None)
    slow = next((fault for fault in request["faults"] if fault.kind == "throttle"), None)
    hold = next((fault for fault in request["faults"] if fault.kind == "hold_inside"), None)
    async for chunk in request.content.iter_any():
        if abort is not None and seen + len(chunk) >= abort.value:
            yield chunk[: int(abort.value) - seen]
            drop(request, reset=abort.reset)
        yield chunk
        seen += len(chunk)
        request["entry"]["size"] = seen
        if slow is not None:
            await asyncio.sleep(len(chunk) / slow.value)
        if hold is not None and seen >= hold.value:
            await state.faults.hold(endpoint_of(request))
            hold = None


async def send(request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    """Stream the answer of a download, as faults let it through."""
    abort = next((fault for fault in request["faults"] if fault.kind == "abort"), None)
    slow = next((fault for fault in request["faults"] if fault.kind == "throttle"), None)
    sent = 0
    await response.prepare(request)
    async for part in parts:
        if abort is not None and sent + len(part) >= abort.value:
            await response.write(part[: int(abort.value) - sent])
            drop(request, reset=abort.reset)
        await response.write(part)
        sent += len(part)
        if slow is not None:
            await asyncio.sleep(len(part) / slow.value)
    request["entry"]["sent"] = sent
    await response.write_eof()
    return response


def build(state: State) -> web.Application:
    """The whole application."""
    # The framework's limits are the server's, not the vendor's: lift them out of the way.
    app = web.Application(middlewares=[swallow_drops, answer], client_max_size=1 << 40)
    app[STATE] = state
    app[CONTROLLED] = state
    app.add_routes([*_controls.routes(), *_control.routes(), *_toolbox.routes(body_of, send)])
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
