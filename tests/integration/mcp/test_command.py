"""`hermes-env mcp`: its token, its clients over HTTP, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.integration.mcp.serving import TOKEN, Server, listening, over_http, said


def test_the_token(tmp_path: Path) -> None:
    """Without the token, or with another one, nothing is answered; a web page cannot reach the server by its name."""
    server = Server("http", tmp_path)
    process, url = listening(server)
    try:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": TOKEN}):
            assert httpx2.post(url, json=body, headers={**accept, **headers}).status_code == 401
        named = {**accept, "Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert httpx2.post(url, json=body, headers=named).status_code == 421
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_two_clients_over_http(tmp_path: Path) -> None:
    """Clients share the environment; without a session their commands stand alone."""
    server = Server("http", tmp_path)
    process, url = listening(server)

    async def main() -> None:
        async with over_http(url) as one, over_http(url) as two:
            await said(one, "exec", command="echo shared >file; cd /; export A=1")
            assert await said(two, "exec", command="cat file; echo ${A-none}") == "shared\nnone\n"
            assert await said(one, "exec", command="pwd") == f"{server.workspace}\n"

    try:
        asyncio.run(main())
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nonsense"], 2, "no backend"),
        (["local", "--http", "8000"], 2, "HOST:PORT"),
        (["local", "--workspace", "/nowhere"], 2, "workspace"),
        (["local", "--workspace", "/nowhere", "--http", "127.0.0.1:0"], 2, "workspace"),
        (["local", "--option", "x=1"], 2, "x"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_usage(arguments: list[str], code: int, words: str) -> None:
    """What cannot be served is one line on stderr, nothing on stdout, and the exit code of wrong usage."""
    argv = [sys.executable, "-m", "hermes_env", "mcp", *arguments]
    variables = {**os.environ, "HERMES_ENV_MCP_TOKEN": TOKEN}
    done = subprocess.run(argv, input=b"", capture_output=True, timeout=120, check=False, env=variables)
    assert (done.returncode, done.stdout) == (code, b""), done.stderr
    assert words in done.stderr.decode() and done.stderr.count(b"\n") == 1
