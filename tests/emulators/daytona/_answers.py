"""Answers of the control plane and of the toolbox: errors above all."""

from __future__ import annotations

import datetime as dt
import errno
from typing import Any

from aiohttp import web


class Refusal(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str, *, empty: bool = False) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.empty = empty
        """The 0.190 daemon answers many file errors with an empty body."""


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


def refuse(refusal: Refusal, request: web.Request, *, style: str) -> web.Response:
    """The whole error answer in the style of a daemon's age."""
    if style == "bare" and refusal.empty:
        return web.Response(status=refusal.status)
    toolbox = request.path.startswith("/toolbox/")
    source = None if style == "bare" else "DAYTONA_DAEMON" if toolbox else "DAYTONA_API"
    return web.json_response(envelope(refusal, request, source=source), status=refusal.status)
