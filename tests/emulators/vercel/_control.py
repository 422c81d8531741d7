"""The control plane: sandboxes, sessions and snapshots."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.emulators._http import Refusal

from ._answers import not_found
from ._sandboxes import Sandbox, Session, make, now_ms
from ._state import STATE, State

_PAGE = 50
"""Longest page (SDK pagination: MAX_QUERY_SANDBOXES_PAGE_SIZE)."""
_SORT_KEYS = {"createdAt": "created", "name": "name", "statusUpdatedAt": "updated", "currentSnapshotId": "snapshot"}


async def body_of(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        Refusal: It is too long, or none.
    """
    longest = request.app[STATE].switches.max_body_bytes
    if (request.content_length or 0) > longest:
        raise Refusal(413, "request_body_too_large", f"body is over {longest} bytes")
    try:
        body = await request.json() if request.body_exists else {}
    except ValueError:
        raise Refusal(400, "bad_request", "body is not JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "bad_request", "body is not an object")
    return body


def _whole(box: Sandbox, **more: Any) -> web.Response:
    answer = {"sandbox": box.to_json(), "session": box.session_json(box.session), "routes": []}
    return web.json_response({**answer, **more})


def _own(request: web.Request, parameter: str = "projectId") -> State:
    state = request.app[STATE]
    if request.query.get(parameter) != state.project:
        raise not_found("project")
    return state


def _check_limit(state: State, milliseconds: int) -> None:
    longest = int(state.switches.max_limit_seconds * 1000)
    if not 1000 <= milliseconds <= longest:
        raise Refusal(400, "bad_request", f"timeout must be between 1000 and {longest} milliseconds")


async def create(request: web.Request) -> web.Response:
    """``POST v3/sandboxes``."""
    state, body = request.app[STATE], await body_of(request)
    if body.get("projectId") != state.project:
        raise not_found("project")
    running = sum(box.session.alive for box in state.sandboxes.values())
    if state.switches.max_sandboxes and running >= state.switches.max_sandboxes:
        raise Refusal(429, "too_many_sandboxes", "too many sandboxes run at once")
    if body.get("name") in state.sandboxes:
        raise Refusal(409, "conflict", f"sandbox {body['name']} exists")
    if len(body.get("tags") or {}) > 5:
        raise Refusal(400, "bad_request", "more than 5 tags")
    if body.get("timeout") is not None:
        _check_limit(state, body["timeout"])
    box = make(state.root, body, state.project, state.switches)
    request["entry"]["sandbox"] = box.name
    state.sandboxes[box.name] = box
    await state.boot(box)
    return _whole(box)


async def get(request: web.Request) -> web.Response:
    """``GET v2/sandboxes/{name}``: resumes a stopped one on demand."""
    state = _own(request)
    box = state.find(request.match_info["name"])
    resumed = request.query.get("resume") == "true" and await state.resume(box)
    return _whole(box, resumed=resumed)


def _page(request: web.Request, items: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    start, limit = int(request.query.get("cursor", 0)), int(request.query.get("limit", _PAGE))
    if not 1 <= limit <= _PAGE:
        raise Refusal(400, "bad_request", f"limit must be between 1 and {_PAGE}")
    page = items[start : start + limit]
    following = str(start + limit) if start + limit < len(items) else None
    return page, {"count": len(page), "next": following, "prev": None}


async def list_all(request: web.Request) -> web.Response:
    """``GET v2/sandboxes``: by a tag and a prefix of the name, sorted, in pages."""
    state, query = _own(request, "project"), request.query
    key, _, value = query.get("tags", "").partition(":")
    found = [
        box
        for box in state.sandboxes.values()
        if box.name.startswith(query.get("namePrefix", "")) and (not key or box.tags.get(key) == value)
    ]
    attribute = _SORT_KEYS[query.get("sortBy", "createdAt")]
    found.sort(key=lambda box: getattr(box, attribute) or "", reverse=query.get("sortOrder", "desc") == "desc")
    page, pagination = _page(request, found)
    return web.json_response({"sandboxes": [box.to_json() for box in page], "pagination": pagination})


async def update(request: web.Request) -> web.Response:
    """``PATCH v2/sandboxes/{name}``: settings of sessions to come, and tags."""
    state, body = _own(request), await body_of(request)
    box = state.find(request.match_info["name"])
    if body.get("timeout") is not None:
        _check_limit(state, body["timeout"])
        box.limit_ms = body["timeout"]
    if body.get("persistent") is not None:
        box.persistent = body["persistent"]
    box.settings = {**box.settings, **body}
    box.updated = now_ms()
    return web.json_response({"sandbox": box.to_json()})


async def destroy(request: web.Request) -> web.Response:
    """``DELETE v2/sandboxes/{name}``."""
    state = _own(request)
    box = state.find(request.match_info["name"])
    sessions = {session.id for session in box.sessions}
    await state.destroy(box)
    if request.query.get("deleteOrphanSnapshots") == "true":
        for identity in [key for key, snap in state.snapshots.items() if snap["sourceSessionId"] in sessions]:
            del state.snapshots[identity]
    return _whole(box)


def _session(request: web.Request) -> tuple[State, Sandbox, Session]:
    state = request.app[STATE]
    return state, *state.running(request.match_info["session"])


def _session_answer(box: Sandbox, session: Session, **more: Any) -> web.Response:
    return web.json_response({"session": box.session_json(session), **more})


async def get_session(request: web.Request) -> web.Response:
    """``GET v2/sandboxes/sessions/{id}``."""
    return _session_answer(*request.app[STATE].session(request.match_info["session"]))


async def list_sessions(request: web.Request) -> web.Response:
    """``GET v2/sandboxes/sessions``."""
    state, name = _own(request, "project"), request.query.get("name")
    boxes = [box for box in state.sandboxes.values() if name in (None, box.name)]
    found = [box.session_json(session) for box in boxes for session in box.sessions]
    found.sort(key=lambda told: told["requestedAt"], reverse=request.query.get("sortOrder", "desc") == "desc")
    page, pagination = _page(request, found)
    return web.json_response({"sessions": page, "pagination": pagination})


async def stop(request: web.Request) -> web.Response:
    """``POST …/stop``."""
    state, box, session = _session(request)
    await state.stop(box)
    kept = {"snapshot": state.snapshots[box.snapshot]} if box.persistent and box.snapshot else {}
    return _session_answer(box, session, sandbox=box.to_json(), **kept)


async def extend(request: web.Request) -> web.Response:
    """``POST …/extend-timeout``."""
    body = await body_of(request)
    state, box, session = _session(request)
    _check_limit(state, session.limit_ms + body["duration"])
    session.limit_ms += body["duration"]
    return _session_answer(box, session)


async def network_policy(request: web.Request) -> web.Response:
    """``POST …/network-policy``: kept, not enforced."""
    body = await body_of(request)
    _, box, session = _session(request)
    session.network_policy = body
    return _session_answer(box, session)


async def snapshot(request: web.Request) -> web.Response:
    """``POST …/snapshot``: stops the session."""
    state, box, session = _session(request)
    box.persistent, before = True, box.persistent
    await state.stop(box)
    box.persistent = before
    assert box.snapshot is not None
    return _session_answer(box, session, snapshot=state.snapshots[box.snapshot])


async def list_snapshots(request: web.Request) -> web.Response:
    """``GET v2/sandboxes/snapshots``."""
    state, name = _own(request, "project"), request.query.get("name")
    boxes = [box for box in state.sandboxes.values() if name == box.name]
    wanted = {session.id for box in boxes for session in box.sessions}
    found = [snap for snap in state.snapshots.values() if name is None or snap["sourceSessionId"] in wanted]
    page, pagination = _page(request, found)
    return web.json_response({"snapshots": page, "pagination": pagination})


async def get_snapshot(request: web.Request) -> web.Response:
    """``GET v2/sandboxes/snapshots/{id}``."""
    state, identity = request.app[STATE], request.match_info["id"]
    if identity not in state.snapshots:
        raise not_found(f"snapshot {identity}")
    return web.json_response({"snapshot": state.snapshots[identity]})


async def delete_snapshot(request: web.Request) -> web.Response:
    """``DELETE v2/sandboxes/snapshots/{id}``."""
    state, identity = request.app[STATE], request.match_info["id"]
    if identity not in state.snapshots:
        raise not_found(f"snapshot {identity}")
    return web.json_response({"snapshot": {**state.snapshots.pop(identity), "status": "deleted"}})


def routes() -> list[web.RouteDef]:
    """The control plane's endpoints; the fixed paths come before the ones with a name."""
    base = "/api/v2/sandboxes"
    return [
        web.post("/api/v3/sandboxes", create, name="create"),
        web.get(base, list_all, name="list", allow_head=False),
        web.get(f"{base}/sessions", list_sessions, name="sessions", allow_head=False),
        web.get(f"{base}/sessions/{{session}}", get_session, name="session", allow_head=False),
        web.post(f"{base}/sessions/{{session}}/stop", stop, name="stop"),
        web.post(f"{base}/sessions/{{session}}/extend-timeout", extend, name="extend"),
        web.post(f"{base}/sessions/{{session}}/network-policy", network_policy, name="network_policy"),
        web.post(f"{base}/sessions/{{session}}/snapshot", snapshot, name="snapshot"),
        web.get(f"{base}/snapshots", list_snapshots, name="snapshots", allow_head=False),
        web.get(f"{base}/snapshots/{{id}}", get_snapshot, name="get_snapshot", allow_head=False),
        web.delete(f"{base}/snapshots/{{id}}", delete_snapshot, name="delete_snapshot"),
        web.get(f"{base}/{{name}}", get, name="get", allow_head=False),
        web.patch(f"{base}/{{name}}", update, name="update"),
        web.delete(f"{base}/{{name}}", destroy, name="destroy"),
    ]
