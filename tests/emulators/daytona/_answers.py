"""Answers of the control plane and of the toolbox: errors above all."""

from __future__ import annotations

import datetime as dt
import errno
from typing import Any

from aiohttp import web

from tests.emulators._http import Refusal

from ._state import STATE


def file_refusal(error: OSError, path: str) -> Refusal:
    """What a failed file operation answers."""
    text = f"{path}: {(error.strerror or str(error)).lower()}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Refusal(404, "FILE_NOT_FOUND", text, empty=True)
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refusal(403, "FILE_ACCESS_DENIED", text, empty=True)
    return Refusal(400, "INVALID_FILE_PATH", text, empty=True)


def envelope(refusal: Refusal, request: web.Request, *, source: str | None) -> dict[str, Any]:
    """The body of an error answer."""
    body: dict[str, Any] = {
        "statusCode": refusal.status,
        "message": refusal.message,
        "code": refusal.code,
        "timestamp": dt.datetime.now(dt.UTC).isoformat(),
        "path": request.path,
        "method": request.method,
    }
    return {**body, "source": source} if source else body


def refuse(refusal: Refusal, request: web.Request) -> web.Response:
    """The whole error answer in the style of a daemon's age; the 0.190 daemon sends many without a body."""
    style = request.app[STATE].switches.errors
    if style == "bare" and refusal.facts.get("empty"):
        return web.Response(status=refusal.status)
    toolbox = request.path.startswith("/toolbox/")
    source = None if style == "bare" else "DAYTONA_DAEMON" if toolbox else "DAYTONA_API"
    return web.json_response(envelope(refusal, request, source=source), status=refusal.status)
