"""The protocol itself: progress, cancellation, what is written to stdout, and how a server ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.mcp.serving import ROOT, Server, alive, has_text, said
from tests.waiting import eventually, until

if TYPE_CHECKING:
    from mcp import Client


def test_progress(server: Server) -> None:
    """Output is told as it comes to a caller who asks for it, with the bytes so far."""
    told: list[tuple[float, str | None]] = []

    async def body(client: Client) -> None:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, message))
            (server.workspace / "go").touch()

        script = "printf 'one\\303'; until [ -e go ]; do sleep 0.05; done; printf '\\251two'; printf err >&2"
        result = await client.call_tool("exec", {"command": script}, progress_callback=on_progress)
        assert result.structured_content["stdout"] == "oneétwo"
        await eventually(lambda: sum(len((message or "").encode()) for _, message in told) == 11)

    server.run(body)
    bytes_so_far, texts = [progress for progress, _ in told], [message or "" for _, message in told]
    assert (bytes_so_far[0], texts[0], bytes_so_far[-1]) == (4, "one", 11)
    assert sorted("".join(texts)) == sorted("oneétwoerr")
    assert bytes_so_far == sorted(set(bytes_so_far))


def test_cancellation(server: Server) -> None:
    """A call that its caller gives up kills the command, and the session is as it was before."""

    async def body(client: Client) -> None:
        for turn in range(5):
            pid = server.workspace / f"pid{turn}"
            script = f"cd /; echo $$ >{pid}; exec sleep 600"
            call = asyncio.create_task(client.call_tool("exec", {"command": script}))
            await eventually(lambda pid=pid: has_text(pid))  # type: ignore[misc]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await eventually(lambda pid=pid: not alive(pid))  # type: ignore[misc]
            assert await said(client, "exec", command="pwd") == f"{server.workspace}\n"

    server.run(body)


def hello(version: str = "2025-06-18") -> list[dict[str, Any]]:
    """How a client of the handshake begins."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def tool_call(ident: int, command: str) -> dict[str, Any]:
    """A request as it stands on the wire."""
    params = {"name": "exec", "arguments": {"command": command}}
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}


def spoken(server: Server, *options: str, backend: str = "local") -> subprocess.Popen[bytes]:
    """A server that is spoken to by hand."""
    argv, pipe = server.argv(*options, backend=backend), subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=server.environ, cwd=ROOT)


def say(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> None:
    """Send messages."""
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def test_nothing_but_protocol_on_stdout(stdio: Server) -> None:
    """Every line on stdout is a message, whatever backend and commands print; their noise goes to stderr."""
    process = spoken(stdio, backend="tests.integration.mcp.noisy:NoisyEnvironment")
    say(process, *hello(), tool_call(1, "echo said; echo NOISE >/proc/$PPID/fd/1 2>/dev/null; :"))
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    out, err = process.communicate(timeout=60)
    messages = [json.loads(line) for line in [*lines, *out.splitlines()]]
    assert [message["id"] for message in messages] == [0, 1]
    assert messages[1]["result"]["structuredContent"]["stdout"] == "said\n"
    assert err.count(b"NOISE of print") == err.count(b"NOISE of a descriptor") == err.count(b"NOISE of a child") > 1
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGINT"])
def test_the_end(stdio: Server, how: str) -> None:
    """However a server over stdio ends, its commands are killed and its environment is closed."""
    process = spoken(stdio)
    pid, home = stdio.workspace / "pid", stdio.workspace / "home"
    say(process, *hello(), tool_call(1, f"echo $_hermes_d >{home}; echo $$ >{pid}; exec sleep 600"))
    until(lambda: has_text(pid))
    if how == "end of stdin":
        process.communicate(timeout=60)
    else:
        process.send_signal(getattr(signal, how))
        process.wait(60)
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    assert process.returncode == {"end of stdin": 0, "SIGTERM": 143, "SIGINT": 130}[how]
    assert not alive(pid)
    directory = home.read_text().strip()
    assert ".hermes-session." in directory and not Path(directory).exists()
