"""The HTTP side that emulators share: the log, faults, dropped connections, and errors as answers."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from aiohttp import web

from ._controls import CONTROLLED

if TYPE_CHECKING:
    from ._faults import Fault

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KINDS = frozenset(
    (
        *("delay", "status", "throttle", "abort"),
        *("drop_before", "drop_during", "drop_after"),
        *("hold_before", "hold_inside", "hold_after"),
    )
)
"""Kinds of faults that every emulator of an HTTP service knows."""


class Refusal(Exception):
    """An error answer.

    Attributes:
        facts: What else the vendor's error answer tells.
    """

    def __init__(self, status: int, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.facts = status, code, message, facts


class Dropped(Exception):
    """The connection was closed on purpose."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How a vendor's service behaves at every endpoint.

    Attributes:
        endpoint: Name of the endpoint of a request in logs and faults; ``""`` where the service has none.
        sandbox: Name or id of the sandbox of a request in logs and faults.
        authenticate: Raises `Refusal` for a request without the right credentials.
        refuse: The answer that a refusal becomes.
        replayed: Longest body of a request that the vendor's proxy sends on twice, in bytes.
    """

    endpoint: Callable[[web.Request], str]
    sandbox: Callable[[web.Request], str]
    authenticate: Callable[[web.Request], None]
    refuse: Callable[[Refusal, web.Request], web.Response]
    replayed: int = 0


MANNERS: web.AppKey[Manners] = web.AppKey("manners", Manners)
_background: set[asyncio.Future[Any]] = set()
"""Work whose client was dropped."""


@web.middleware
async def swallow_drops(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A connection that was dropped, or that its client left, has no answer."""
    try:
        return await handler(request)
    except (Dropped, ConnectionResetError):
        return web.Response()


@web.middleware
async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Authentication, faults, log, and the shape of error answers."""
    state, manners = request.app[CONTROLLED], request.app[MANNERS]
    name = manners.endpoint(request)
    if not name:
        return await handler(request)
    sandbox = manners.sandbox(request)
    entry = state.log.add(name, sandbox, at=time.monotonic(), size=request.content_length or 0)
    request["endpoint"], request["entry"], request["faults"] = name, entry, state.faults.take(name, sandbox)
    try:
        response = await _meet(request, handler, manners)
    except Refusal as refusal:
        response = manners.refuse(refusal, request)
    except (Dropped, ConnectionResetError):
        entry["status"] = 0  # nobody is there to be answered
        raise
    entry["status"] = response.status
    return response


async def _meet(request: web.Request, handler: Handler, manners: Manners) -> web.StreamResponse:
    faults: list[Fault] = request["faults"]
    if faults and request.content_type == "application/json":
        # What is read before can be worked on when the client has gone; aiohttp throws away what is not.
        await request.read()
    for fault in faults:
        await _before(request, fault)
    manners.authenticate(request)
    for fault in faults:
        if fault.kind == "drop_during":
            await _drop_during(request, handler, fault)
    response = await handler(request)
    for fault in faults:
        response = await _after(request, handler, fault, manners) or response
    return response


async def _before(request: web.Request, fault: Fault) -> None:
    if fault.kind == "delay":
        await asyncio.sleep(fault.value)
    elif fault.kind == "hold_before":
        await request.app[CONTROLLED].faults.hold(request["endpoint"])
    elif fault.kind == "drop_before":
        drop(request, reset=fault.reset)
    elif fault.kind == "status":
        raise Refusal(int(fault.value), fault.code, f"emulated answer {int(fault.value)}")


async def _drop_during(request: web.Request, handler: Handler, fault: Fault) -> None:
    work = asyncio.ensure_future(handler(request))
    _background.add(work)
    work.add_done_callback(_forget)
    await asyncio.sleep(fault.value)
    drop(request, reset=fault.reset)


def _forget(work: asyncio.Future[Any]) -> None:
    _background.discard(work)
    if not work.cancelled():
        # Whoever should have heard of it has gone; asyncio complains about an exception that nobody looks at.
        work.exception()


async def _after(request: web.Request, handler: Handler, fault: Fault, manners: Manners) -> web.StreamResponse | None:
    """What comes after the work; an answer that takes the place of the first one."""
    if fault.kind == "replay" and (request.content_length or 0) <= manners.replayed:
        return await handler(request)
    if fault.kind == "hold_after":
        await request.app[CONTROLLED].faults.hold(request["endpoint"])
    elif fault.kind == "drop_after":
        drop(request, reset=fault.reset)
    return None


def drop(request: web.Request, *, reset: bool) -> NoReturn:
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


def _fault(request: web.Request, kind: str) -> Fault | None:
    return next((fault for fault in request["faults"] if fault.kind == kind), None)


async def body_of(request: web.Request) -> AsyncIterator[bytes]:
    """The body of an upload, as faults let it through."""
    seen = 0
    abort, slow, hold = (_fault(request, kind) for kind in ("abort", "throttle", "hold_inside"))
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
            await request.app[CONTROLLED].faults.hold(request["endpoint"])
            hold = None


async def _once_over(request: web.Request, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream of which nothing is sent before its work is over, and nothing at all where the connection is dropped."""
    kept = [part async for part in parts]
    hold, dropped = _fault(request, "hold_after"), _fault(request, "drop_after")
    if hold is not None:
        request["faults"].remove(hold)
        await request.app[CONTROLLED].faults.hold(request["endpoint"])
    if dropped is not None:
        drop(request, reset=dropped.reset)

    async def again() -> AsyncIterator[bytes]:
        for part in kept:
            yield part

    return again()


async def send(request: web.Request, response: web.StreamResponse, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    """Stream an answer, as faults let it through."""
    abort, slow = _fault(request, "abort"), _fault(request, "throttle")
    sent = 0
    if _fault(request, "hold_after") or _fault(request, "drop_after"):
        parts = await _once_over(request, parts)
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
