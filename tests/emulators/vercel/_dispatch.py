"""The endpoints of commands."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tests.emulators._http import Refusal, send
from tests.emulators._spawning import spawn

from ._answers import not_found
from ._commands import STREAM_CLOSED, Command, Wish, start
from ._control import body_of
from ._output import Line, as_line
from ._sandboxes import Sandbox, Session
from ._state import STATE


def _wish(body: dict[str, Any], session: Session) -> Wish:
    if not isinstance(body.get("command"), str) or not body["command"]:
        raise Refusal(400, "bad_request", "command is missing")
    env = body.get("env") or {}
    if any("\0" in text for text in (body["command"], *(body.get("args") or []), *env, *env.values())):
        raise Refusal(400, "bad_request", "NUL in a command")
    if any(not name or "=" in name for name in env):
        raise Refusal(400, "bad_request", "a variable has no proper name")
    return Wish(
        name=body["command"],
        args=tuple(body.get("args") or ()),
        cwd=body.get("cwd") or session.cwd,
        env=env,
        sudo=bool(body.get("sudo")),
        attach_stdin=bool(body.get("attachStdin")),
        timeout=body["timeout"] / 1000 if body.get("timeout") else None,
    )


async def _begin(request: web.Request, wish: Wish) -> Command:
    """Start a command, whether its client waits for it or not."""
    state = request.app[STATE]
    await state.linger("dispatch_seconds")
    box, session = state.running(request.match_info["session"])
    environ = {**box.environ(session), **wish.env, **({"HOME": "/root"} if wish.sudo else {})}
    options = start(wish, environ, None if wish.sudo else box.account)
    work = asyncio.get_running_loop().run_in_executor(
        state.spawners, lambda: spawn([wish.name, *wish.args], session.namespace, **options)
    )
    try:
        child = await work
    except OSError as error:
        raise (_not_started(error, wish) if session.alive else state.stopped()) from error
    command = Command(session.id, wish, child, state.switches)
    session.commands[command.id] = command
    if not session.alive:
        command.lose(state.stopped())
        await asyncio.to_thread(session.power_off)
    return command


def _not_started(error: OSError, wish: Wish) -> Refusal:
    if error.filename == wish.cwd and wish.cwd != wish.name:
        return Refusal(400, "file_error", f"chdir {wish.cwd}: {error.strerror}")
    if isinstance(error, FileNotFoundError | PermissionError):
        return Refusal(400, "executable_not_found", f"exec {wish.name}: {error.strerror}")
    return Refusal(400, "bad_request", f"exec {wish.name}: {error.strerror}")


async def run(request: web.Request) -> web.StreamResponse:
    """``POST …/cmd``: answers at once, or with ``wait`` and ``logs`` by a stream that ends with the command."""
    state, body = request.app[STATE], await body_of(request)
    _, session = state.running(request.match_info["session"])
    request["entry"]["command"] = [body.get("command"), *(body.get("args") or [])]
    command = await _begin(request, _wish(body, session))
    request["entry"]["id"] = command.id
    if not body.get("wait"):
        return web.json_response({"command": command.to_json()})
    return await send(request, _stream(), _cut(request, _whole(command)))


def _stream() -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    response.force_close()
    return response


async def _whole(command: Command) -> AsyncIterator[Line]:
    yield as_line({"command": {**command.to_json(), "exitCode": None}})
    async for line in command.output.lines():
        yield line
    if command.lost is None:
        yield as_line({"command": command.to_json()})


async def _cut(request: web.Request, lines: AsyncIterator[Line]) -> AsyncIterator[Line]:
    """The records, or with a fault only the first: then the service has lost its connection to the sandbox."""
    fault = next((fault for fault in request["faults"] if fault.kind == "stream_closed"), None)
    left = -1 if fault is None else int(fault.value)
    while left and (line := await anext(lines, None)) is not None:
        yield line
        left -= 1
    if not left:
        yield as_line({"stream": "error", "data": STREAM_CLOSED})


def _command(request: web.Request) -> tuple[Sandbox, Session, Command]:
    box, session = request.app[STATE].running(request.match_info["session"])
    identity = request.match_info["command"]
    if identity not in session.commands:
        raise not_found(f"command {identity}")
    return box, session, session.commands[identity]


def _answer(command: Command, **more: Any) -> web.Response:
    return web.json_response({"command": command.to_json(), **more})


async def list_all(request: web.Request) -> web.Response:
    """``GET …/cmd``: the newest first."""
    _, session = request.app[STATE].running(request.match_info["session"])
    commands = [command.to_json() for command in session.commands.values()]
    return web.json_response({"commands": commands[::-1]})


async def get(request: web.Request) -> web.Response:
    """``GET …/cmd/{id}``: with ``wait`` when it is over."""
    _, _, command = _command(request)
    if request.query.get("wait") == "true":
        await command.wait()
    return _answer(command)


async def logs(request: web.Request) -> web.StreamResponse:
    """``GET …/cmd/{id}/logs``: from the first record, until the command is over."""
    _, _, command = _command(request)
    return await send(request, _stream(), _cut(request, command.output.lines()))


async def kill(request: web.Request) -> web.Response:
    """``POST …/cmd/{id}/kill``."""
    body = await body_of(request)
    _, _, command = _command(request)
    number = body.get("signal")
    if not isinstance(number, int) or not 0 < number < 65:
        raise Refusal(400, "bad_request", f"no signal: {number}")
    request["entry"]["signal"] = number
    if command.over and request.app[STATE].switches.kill_ended == "refused":
        raise Refusal(404, "not_found", f"command {command.id} is not running")
    command.kill(number)
    return _answer(command)


async def feed(request: web.Request) -> web.Response:
    """``POST …/cmd/{id}/stdin``."""
    body = await body_of(request)
    _, _, command = _command(request)
    try:
        data = base64.b64decode(body.get("data") or "", validate=True)
    except binascii.Error:
        raise Refusal(400, "bad_request", "data is not base64") from None
    close = bool(body.get("close"))
    if not request.app[STATE].switches.stdin_offsets:
        await command.feed(data, None, close=close)
        return _answer(command)
    return _answer(command, bytesWritten=await command.feed(data, body.get("offset"), close=close))


def routes() -> list[web.RouteDef]:
    """The endpoints of commands."""
    base = "/api/v2/sandboxes/sessions/{session}/cmd"
    return [
        web.post(base, run, name="run"),
        web.get(base, list_all, name="commands", allow_head=False),
        web.get(f"{base}/{{command}}", get, name="command", allow_head=False),
        web.get(f"{base}/{{command}}/logs", logs, name="logs", allow_head=False),
        web.post(f"{base}/{{command}}/kill", kill, name="kill"),
        web.post(f"{base}/{{command}}/stdin", feed, name="stdin"),
    ]
