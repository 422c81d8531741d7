"""HTTP around the MCP server: a token for every request, and a server that says where it listens."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_env.adapters import runtime

with runtime("mcp"):
    import uvicorn

if TYPE_CHECKING:
    from socket import socket

    from starlette.types import ASGIApp, Receive, Scope, Send


class ListeningServer(uvicorn.Server):
    """Says where it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp")


class Guard:
    """Refuses what does not bring the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers") or [])
        if scope["type"] == "lifespan" or hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            await self._app(scope, receive, send)
            return
        kind = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": kind})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})
