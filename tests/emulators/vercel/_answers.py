"""Error answers of the service."""

from __future__ import annotations

import errno

from aiohttp import web

from tests.emulators._http import Refusal


def refuse(refusal: Refusal, _request: web.Request) -> web.Response:
    """The whole error answer."""
    facts = dict(refusal.facts)
    headers = {"Retry-After": str(facts.pop("retry_after"))} if "retry_after" in facts else None
    error = {"message": refusal.message, **facts}
    if refusal.code:
        error["code"] = refusal.code
    return web.json_response({"error": error}, status=refusal.status, headers=headers)


def file_refusal(error: OSError, path: str) -> Refusal:
    """What a failed file operation answers."""
    if error.errno == errno.ENOENT:
        return Refusal(404, "not_found", f"{path}: No such file or directory")
    return Refusal(400, "file_error", f"{path}: {error.strerror or error}")


def not_found(what: str) -> Refusal:
    """Answer about something that is not there."""
    return Refusal(404, "not_found", f"{what} not found")
