"""The toolbox inside a sandbox: commands and files."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.emulators._http import Refusal, body_of, send

from . import _execute, _files
from ._answers import file_refusal
from ._state import STATE

if TYPE_CHECKING:
    from ._sandboxes import Sandbox

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _box(request: web.Request) -> Sandbox:
    return request.app[STATE].running(request.match_info["id"])


async def execute(request: web.Request) -> web.Response:
    """``POST process/execute``: goes on when the client has gone."""
    state, box, body = request.app[STATE], _box(request), await request.json()
    envs: dict[str, str] = body.get("envs") or {}
    timeout: int = body.get("timeout") or 0
    if timeout < 0 or not all(_NAME.fullmatch(name) for name in envs):
        raise Refusal(400, "BAD_REQUEST", "invalid request")
    request["entry"]["command"] = body["command"]
    box.busy += 1
    try:
        outcome = await asyncio.get_running_loop().run_in_executor(
            state.runners,
            lambda: _execute.run(
                body["command"],
                shell=state.switches.shell,
                cwd=box.path(body.get("cwd") or ""),
                env={**box.environ(), **envs},
                timeout=timeout,
                wait_for_pipe_end=state.switches.wait_for_pipe_end,
                namespace=box.namespace,
            ),
        )
    finally:
        box.busy -= 1
        box.last_activity = time.time()
    text = _execute.as_text(outcome.output, lossy=state.switches.output_as_text)
    if outcome.timed_out:
        kept = text if state.switches.keep_output_on_timeout else ""
        raise Refusal(408, "PROCESS_EXECUTION_TIMEOUT", f"command execution timeout{kept}")
    return web.json_response({"exitCode": outcome.code, "result": text})


async def _thread(path: str, work: Callable[[], Any]) -> Any:
    """File work off the loop, with its failures as answers."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise file_refusal(error, path) from error


async def info(request: web.Request) -> web.Response:
    """``GET files/info``."""
    box, path = _box(request), request.query["path"]
    return web.json_response(await _thread(path, lambda: _files.info(box, path)))


async def list_dir(request: web.Request) -> web.Response:
    """``GET files``."""
    box, path = _box(request), request.query.get("path", "")
    return web.json_response(await _thread(path, lambda: _files.list_dir(box, path)))


async def remove(request: web.Request) -> web.Response:
    """``DELETE files``."""
    box, path = _box(request), request.query["path"]
    recursive = request.query.get("recursive", "").lower() == "true"
    await _thread(path, lambda: _files.remove(box, path, recursive=recursive))
    return web.Response(status=204)


async def chmod(request: web.Request) -> web.Response:
    """``POST files/permissions``."""
    box, path = _box(request), request.query["path"]
    await _thread(path, lambda: _files.chmod(box, path, request.query.get("mode", "")))
    return web.Response()


async def make_dir(request: web.Request) -> web.Response:
    """``POST files/folder``."""
    box, path = _box(request), request.query["path"]
    await _thread(path, lambda: _files.make_dir(box, path, request.query["mode"]))
    return web.Response(status=201)


async def move(request: web.Request) -> web.Response:
    """``POST files/move``."""
    box, source = _box(request), request.query["source"]
    await _thread(source, lambda: _files.move(box, source, request.query["destination"]))
    return web.Response()


async def raw_download(request: web.Request) -> web.StreamResponse:
    """``GET files/download``: the bytes, without multipart."""
    where = _box(request).path(request.query["path"])
    if not await asyncio.to_thread(os.path.isfile, where):
        raise Refusal(404, "FILE_NOT_FOUND", "no such file", empty=True)
    return web.FileResponse(where)


async def directory(request: web.Request) -> web.Response:
    """``GET work-dir``, ``GET user-home-dir``."""
    return web.json_response({"dir": _box(request).home})


def routes() -> list[web.RouteDef]:
    """The toolbox's endpoints."""

    async def upload(request: web.Request) -> web.Response:
        return await _files.upload(_box(request), request, request.app[STATE].switches, body_of(request))

    async def download(request: web.Request) -> web.StreamResponse:
        box, switches = _box(request), request.app[STATE].switches
        paths = (await request.json())["paths"]
        boundary = _files.download_boundary(switches)
        response = web.StreamResponse(headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})
        return await send(request, response, _files.download_parts(box, paths, boundary, style=switches.errors))

    base = "/toolbox/{id}"
    return [
        web.post(f"{base}/process/execute", execute, name="execute"),
        web.post(f"{base}/files/bulk-upload", upload, name="upload"),
        web.post(f"{base}/files/bulk-download", download, name="download"),
        web.get(f"{base}/files/download", raw_download, name="raw_download", allow_head=False),
        web.get(f"{base}/files/info", info, name="info", allow_head=False),
        web.get(f"{base}/files", list_dir, name="list_dir", allow_head=False),
        web.delete(f"{base}/files", remove, name="remove"),
        web.post(f"{base}/files/permissions", chmod, name="chmod"),
        web.post(f"{base}/files/folder", make_dir, name="make_dir"),
        web.post(f"{base}/files/move", move, name="move"),
        web.get(f"{base}/work-dir", directory, name="work_dir", allow_head=False),
        web.get(f"{base}/user-home-dir", directory, name="home_dir", allow_head=False),
    ]
