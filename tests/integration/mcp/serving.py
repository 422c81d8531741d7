"""A server of the Model Context Protocol as users start it, and clients that talk to it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOKEN = "a-token-of-the-test"
ROOT = Path(__file__).parents[3]
Body = Callable[[Client], Awaitable[None]]


class Server:
    """How to reach a server of our own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.workspace = folder / "work"
        self.workspace.mkdir()

    def argv(self, *options: str, backend: str = "local") -> list[str]:
        """The command line of a server."""
        return [sys.executable, "-m", "hermes_env", "mcp", backend, "--workspace", str(self.workspace), *options]

    @property
    def environ(self) -> dict[str, str]:
        """Its environment."""
        return {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "HERMES_ENV_MCP_TOKEN": TOKEN}

    def run(self, body: Body, *options: str) -> None:
        """Talk to a server; it has ended afterwards."""

        async def main() -> None:
            async with self.client(*options) as client:
                await asyncio.wait_for(body(client), 120)

        asyncio.run(main())

    @asynccontextmanager
    async def client(self, *options: str) -> AsyncIterator[Client]:
        """A client with a server of its own."""
        if self.kind == "stdio":
            command, *args = self.argv(*options)
            async with Client(StdioServerParameters(command=command, args=args, env=self.environ, cwd=ROOT)) as client:
                yield client
            return
        process, url = listening(self, "--session", *options)
        try:
            async with over_http(url) as client:
                yield client
        finally:
            process.terminate()
            assert process.wait(60) in (0, 143)
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.read() == b""
            process.stdout.close()
            process.stderr.close()


@asynccontextmanager
async def over_http(url: str) -> AsyncIterator[Client]:
    """A client that brings the token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def listening(server: Server, *options: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server on a free port of loopback, and its URL."""
    argv = server.argv("--http", "127.0.0.1:0", *options)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=server.environ, cwd=ROOT)
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    assert line.startswith("hermes-env: serving at http://127.0.0.1:"), line
    return process, line.split()[-1]


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """The text that a tool answers, which has not failed."""
    result = await client.call_tool(tool, arguments)
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    return text


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The text with which a tool fails."""
    result = await client.call_tool(tool, arguments)
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert result.is_error, text
    return text


def has_text(path: Path) -> bool:
    """Whether a file is there and not empty."""
    return path.exists() and path.read_text() != ""


def alive(pid: Path) -> bool:
    """Whether the process lives whose id a file holds."""
    return Path(f"/proc/{pid.read_text().strip()}").exists()
