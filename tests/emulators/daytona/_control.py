"""The control plane: sandboxes are made, found, started, stopped and deleted."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from aiohttp import web

from tests.emulators._http import Refusal

from ._sandboxes import Sandbox, make
from ._state import STATE, State


async def create(request: web.Request) -> web.Response:
    """``POST sandbox``."""
    state, body = request.app[STATE], await request.json()
    switches = state.switches
    if switches.max_sandboxes and len(state.sandboxes) >= switches.max_sandboxes:
        raise Refusal(403, "FORBIDDEN", "Total CPU limit exceeded")
    if body.get("name") and any(box.name == body["name"] for box in state.sandboxes.values()):
        raise Refusal(409, "CONFLICT", f"Sandbox with name {body['name']} already exists")
    box = make(state.root, body, auto_stop=switches.default_auto_stop)
    request["entry"]["sandbox"] = box.id
    state.sandboxes[box.id] = box
    await _begin(state, box)
    return web.json_response(state.json(box))


async def _begin(state: State, box: Sandbox) -> None:
    await asyncio.to_thread(box.start, isolated=state.switches.isolated)
    box.last_activity = time.time()
    if not state.switches.start_seconds:
        box.state = "started"
        return
    box.state = "starting"
    box.ready_at = time.time() + state.switches.start_seconds
    request_loop = asyncio.get_running_loop()
    request_loop.call_later(state.switches.start_seconds, _ready, state, box)


def _ready(state: State, box: Sandbox) -> None:
    if box.state == "starting":
        box.state = "started"
        task = asyncio.ensure_future(state.announce(box, "starting"))
        task.add_done_callback(lambda done: done.exception())


async def get(request: web.Request) -> web.Response:
    """``GET sandbox/{id}``."""
    state = request.app[STATE]
    return web.json_response(state.json(state.find(request.match_info["id"])))


async def list_all(request: web.Request) -> web.Response:
    """``GET sandbox``: by labels and states, in pages."""
    state, query = request.app[STATE], request.query
    labels = json.loads(query["labels"]) if "labels" in query else {}
    states = query.getall("states", [])
    found = [
        box
        for box in state.sandboxes.values()
        if labels.items() <= box.labels.items() and (not states or box.state in states)
    ]
    start, limit = int(query.get("cursor", 0)), int(query.get("limit", 100))
    more = start + limit if start + limit < len(found) else None
    page = [state.json(box) for box in found[start : start + limit]]
    return web.json_response({"items": page, "nextCursor": None if more is None else str(more)})


async def change(request: web.Request) -> web.Response:
    """``POST sandbox/{id}/start``, ``stop``, ``archive``."""
    state = request.app[STATE]
    box, what = state.find(request.match_info["id"]), request.match_info["what"]
    old = box.state
    if what == "start":
        if old == "started":
            raise Refusal(400, "BAD_REQUEST", "Sandbox is already started")
        await _begin(state, box)
    else:
        await asyncio.to_thread(state.take_away, box.id, {"stop": "stopped", "archive": "archived"}[what])
    await state.announce(box, old)
    return web.json_response(state.json(box))


async def delete(request: web.Request) -> web.Response:
    """``DELETE sandbox/{id}``."""
    state = request.app[STATE]
    box = state.find(request.match_info["id"])
    old = box.state
    await asyncio.to_thread(state.take_away, box.id, "destroyed")
    await state.announce(box, old)
    return web.json_response(state.json(box))


async def labels(request: web.Request) -> web.Response:
    """``PUT sandbox/{id}/labels``."""
    box = request.app[STATE].find(request.match_info["id"])
    box.labels = dict((await request.json())["labels"])
    return web.json_response({"labels": box.labels})


async def interval(request: web.Request) -> web.Response:
    """``POST sandbox/{id}/autostop/{minutes}`` and its siblings."""
    state = request.app[STATE]
    box, minutes = state.find(request.match_info["id"]), float(request.match_info["minutes"])
    names = {"autostop": "auto_stop", "autoarchive": "auto_archive", "autodelete": "auto_delete", "ttl": "ttl"}
    setattr(box, names[request.match_info["which"]], minutes)
    return web.json_response(state.json(box))


async def activity(request: web.Request) -> web.Response:
    """``POST sandbox/{id}/last-activity``."""
    request.app[STATE].find(request.match_info["id"]).last_activity = time.time()
    return web.Response(status=201)


async def toolbox_url(request: web.Request) -> web.Response:
    """``GET sandbox/{id}/toolbox-proxy-url``."""
    state = request.app[STATE]
    state.find(request.match_info["id"])
    return web.json_response({"url": f"{state.url}/toolbox"})


async def config(request: web.Request) -> web.Response:
    """``GET config``."""
    return web.json_response(_CONFIG)


_CONFIG: dict[str, Any] = {"version": "emulator", "environment": "local"}


def routes() -> list[web.RouteDef]:
    """The control plane's endpoints."""
    return [
        web.post("/api/sandbox", create, name="create"),
        web.get("/api/sandbox", list_all, name="list", allow_head=False),
        web.get("/api/sandbox/{id}", get, name="get", allow_head=False),
        web.delete("/api/sandbox/{id}", delete, name="delete"),
        web.put("/api/sandbox/{id}/labels", labels, name="labels"),
        web.get("/api/sandbox/{id}/toolbox-proxy-url", toolbox_url, name="toolbox_url", allow_head=False),
        web.post("/api/sandbox/{id}/last-activity", activity, name="activity"),
        web.post("/api/sandbox/{id}/{what:start|stop|archive}", change, name="change"),
        web.post("/api/sandbox/{id}/{which:autostop|autoarchive|autodelete|ttl}/{minutes}", interval, name="interval"),
        web.get("/api/config", config, name="config", allow_head=False),
    ]
