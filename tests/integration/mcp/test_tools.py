"""The tools that a client sees, and what each of them does."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from hermes_env.tools import tool_schemas
from tests.integration.mcp.serving import Server, alive, refused, said

if TYPE_CHECKING:
    from mcp import Client


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
