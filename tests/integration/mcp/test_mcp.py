"""`hermes-env mcp`, by the client of the package ``mcp``, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hermes_env.tools import tool_schemas

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


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    """One way to serve after the other."""
    return Server(request.param, tmp_path)


@pytest.fixture
def either(server: Server) -> Server:
    """The same, where the way makes no difference: one of them will do for the run that everyone waits for."""
    if server.kind == "http" and os.environ.get("HERMES_ENV_SLOW") != "1":
        pytest.skip("takes long: set HERMES_ENV_SLOW=1 to run it")
    return server


@pytest.fixture
def stdio(tmp_path: Path) -> Server:
    """A server over stdio."""
    return Server("stdio", tmp_path)


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


async def until(condition: Callable[[], object]) -> None:
    """Wait for a fact."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def has_text(path: Path) -> bool:
    """Whether a file is there and not empty."""
    return path.exists() and path.read_text() != ""


def alive(pid: Path) -> bool:
    """Whether the process lives whose id a file holds."""
    return Path(f"/proc/{pid.read_text().strip()}").exists()


def test_the_tools_and_their_schemas(either: Server) -> None:
    """The tools are those promised; file tools have the published schemas, to the letter."""

    async def body(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"exec", "read", "write", "str_replace", "insert", "apply_patch", "list"}
        published = {schema["name"]: schema for schema in tool_schemas("mcp")}
        theirs = {"read": "read_file", "write": "write_file"}
        for name in ("read", "write", "str_replace", "insert", "apply_patch"):
            schema = published[theirs.get(name, name)]
            assert tools[name].input_schema == schema["inputSchema"]
            assert tools[name].output_schema == schema.get("outputSchema")
            assert tools[name].description == schema["description"]

    either.run(body)


def test_files(either: Server) -> None:
    """Files are written, changed, patched, read and listed; what is on disk is what was sent."""

    async def body(client: Client) -> None:
        await said(client, "write", path="deep/é.txt", content="one\r\ntwo\r\n")
        assert (either.workspace / "deep/é.txt").read_bytes() == b"one\r\ntwo\r\n"
        await said(client, "str_replace", path="deep/é.txt", old_string="two", new_string="zwei")
        patch = "*** Begin Patch\n*** Update File: deep/é.txt\n@@\n-one\n+eins\n*** Add File: new\n+x\n*** End Patch\n"
        result = await client.call_tool("apply_patch", {"patch": patch})
        assert (either.workspace / "deep/é.txt").read_bytes() == b"eins\r\nzwei\r\n"
        outcome = result.structured_content
        digest = hashlib.sha256(b"eins\r\nzwei\r\n").hexdigest()
        assert digest in {change["after_sha256"] for change in outcome["changed_files"]}
        assert await said(client, "read", path="deep/é.txt") == "eins\nzwei\n"
        assert await said(client, "list") == "deep/\nnew\n"
        assert "no directory" in await refused(client, "list", path="new")
        assert "No match" in await refused(client, "str_replace", path="new", old_string="nowhere", new_string="y")

    either.run(body)


def test_the_policy(either: Server) -> None:
    """File tools stay in the workspace; without --yes nothing is deleted, without exec nothing is run."""

    async def body(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "exec" not in names and "read" in names
        assert "no tool" in await refused(client, "exec", command="echo ran")
        assert "outside" in await refused(client, "read", path="/etc/passwd")
        assert "leaves the workspace" in await refused(client, "write", path="../out", content="x")
        await said(client, "write", path="kept", content="x")
        delete = "*** Begin Patch\n*** Delete File: kept\n*** End Patch\n"
        assert "delete" in await refused(client, "apply_patch", patch=delete)

    either.run(body, "--no-exec")
    assert (either.workspace / "kept").read_bytes() == b"x" and not (either.folder / "out").exists()


def test_another_policy(stdio: Server) -> None:
    """The policy is the one that was chosen, and --yes confirms."""

    async def body(client: Client) -> None:
        await said(client, "write", path="a.txt", content="x")
        assert "suffix" in await refused(client, "write", path="a.exe", content="x")
        await said(client, "apply_patch", patch="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n")

    stdio.run(body, "--policy", "helloagents", "--yes")
    assert not (stdio.workspace / "a.txt").exists()


def test_commands(server: Server) -> None:
    """Streams, exit code and stdin are the command's; directory and variables last; bytes are shown, never refused."""

    async def body(client: Client) -> None:
        result = await client.call_tool(
            "exec", {"command": "cat; echo err >&2; cd /; export A=1; exit 3", "stdin": "in", "env": {"B": "2"}}
        )
        assert not result.is_error
        assert result.structured_content == {
            "exit_code": 3, "stdout": "in", "stderr": "err\n", "stdout_bytes": 2, "stderr_bytes": 4,
            "truncated": False, "timed_out": False,
        }  # fmt: skip
        assert await said(client, "exec", command="pwd; echo $A${B-none}") == "/\n1none\n"
        assert await said(client, "exec", command="pwd", cwd="/usr") == "/usr\n"
        assert await said(client, "exec", command=r"printf '\377\303\251'") == "\\xffé"
        assert "no such directory" in await refused(client, "exec", command="true", cwd="/nowhere")
        assert "invalid arguments: comand" in await refused(client, "exec", command="true", comand="x")
        assert "command" in await refused(client, "exec")
        assert "no tool 'rm'" in await refused(client, "rm")

    server.run(body)


def test_commands_that_stand_alone(stdio: Server) -> None:
    """Without a session nothing lasts, commands begin in the workspace, and they run at once."""

    async def body(client: Client) -> None:
        await said(client, "exec", command="cd /; export A=1")
        assert await said(client, "exec", command="pwd; echo ${A-none}") == f"{stdio.workspace}\nnone\n"
        (stdio.workspace / "sub").mkdir()
        assert await said(client, "exec", command="pwd", cwd="sub") == f"{stdio.workspace}/sub\n"
        first = "n=0; until [ -e there ] || [ $n = 600 ]; do n=$((n+1)); sleep 0.1; done; [ -e there ]; echo $?"
        both = await asyncio.gather(said(client, "exec", command=first), said(client, "exec", command=": >there"))
        assert list(both) == ["0\n", ""]

    stdio.run(body, "--no-session")


def test_limits(either: Server) -> None:
    """Output over the limit is cut in the middle and counted whole; a command over its time is killed."""

    async def body(client: Client) -> None:
        result = await client.call_tool("exec", {"command": "printf '%050000d' 7; printf '%0900d' 8 >&2"})
        shown = result.structured_content
        assert (len(shown["stdout"]), shown["stdout_bytes"], shown["truncated"]) == (1000, 50_000, True)
        assert shown["stdout"].endswith("7") and len(shown["stderr"]) == shown["stderr_bytes"] == 900
        pid = either.workspace / "pid"
        result = await client.call_tool(
            "exec", {"command": f"echo $$ >{pid}; echo out; exec sleep 600", "timeout": 0.5}
        )
        assert result.is_error and result.structured_content["timed_out"]
        assert not alive(pid)
        result = await client.call_tool("exec", {"command": "sleep 600", "timeout": 1e9})
        assert result.is_error and result.structured_content["timed_out"]

    either.run(body, "--output-limit", "1000", "--timeout", "2")


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
        await until(lambda: sum(len((message or "").encode()) for _, message in told) == 11)

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
            await until(lambda pid=pid: has_text(pid))  # type: ignore[misc]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda pid=pid: not alive(pid))  # type: ignore[misc]
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
    asyncio.run(until(lambda: has_text(pid)))
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
