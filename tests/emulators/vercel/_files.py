"""The endpoints of files."""

from __future__ import annotations

import asyncio
import functools
import os
import stat
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from tests.emulators._http import Refusal, body_of, send

from . import _control
from ._account import Account, acting_as
from ._answers import file_refusal
from ._archive import Unpacker
from ._state import STATE

_CHUNK = 256 << 10


async def _thread(who: Account | None, path: str, work: Callable[[], Any]) -> Any:
    """File work off the loop, done by the sandbox's account, with its failures as answers."""

    def act() -> Any:
        with acting_as(who):
            return work()

    try:
        return await asyncio.to_thread(act)
    except OSError as error:
        raise file_refusal(error, path) from error


async def _target(request: web.Request) -> tuple[Account | None, dict[str, Any], str]:
    body = await _control.body_of(request)
    box, session = request.app[STATE].running(request.match_info["session"])
    if not isinstance(body.get("path"), str) or "\0" in body["path"]:
        raise Refusal(400, "bad_request", "path is missing")
    return box.account, body, os.path.join(session.cwd, body.get("cwd") or "", body["path"])


async def make_dir(request: web.Request) -> web.Response:
    """``POST …/fs/mkdir``."""
    who, body, path = await _target(request)
    if body.get("recursive", True):
        await _thread(who, path, lambda: os.makedirs(path, 0o755, exist_ok=True))
    else:
        await _thread(who, path, lambda: os.mkdir(path, 0o755))
    return web.json_response({})


def _open(path: str) -> int:
    # Without O_NONBLOCK a FIFO would keep this thread.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Refusal(400, "file_error", f"{path}: not a regular file")
    return file


async def read(request: web.Request) -> web.StreamResponse:
    """``POST …/fs/read``: the bytes as they are."""
    who, _, path = await _target(request)
    file = await _thread(who, path, lambda: _open(path))
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    return await send(request, response, _pieces(file))


async def _pieces(file: int) -> AsyncIterator[bytes]:
    try:
        while piece := await asyncio.to_thread(os.read, file, _CHUNK):
            yield piece
    finally:
        os.close(file)


async def write(request: web.Request) -> web.Response:
    """``POST …/fs/write``: unpacks an archive below ``x-cwd`` as it arrives."""
    box, session = request.app[STATE].running(request.match_info["session"])
    base = os.path.join(session.cwd, request.headers.get("x-cwd", ""))
    job = Unpacker(base, request.app[STATE].switches)
    request["entry"]["paths"] = job.written
    try:
        async for piece in body_of(request):
            await _thread(box.account, base, functools.partial(job.take, piece))
        job.finish()
    finally:
        job.close()
    return web.json_response({})


def routes() -> list[web.RouteDef]:
    """The endpoints of files."""
    base = "/api/v2/sandboxes/sessions/{session}/fs"
    return [
        web.post(f"{base}/mkdir", make_dir, name="mkdir"),
        web.post(f"{base}/read", read, name="read"),
        web.post(f"{base}/write", write, name="write"),
    ]
