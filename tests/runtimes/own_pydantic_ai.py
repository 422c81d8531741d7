"""What pydantic-ai's suite does not look at, on our workspaces."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import (
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from hermes_env.adapters.pydantic_ai import HermesWorkspace, HermesWorkspaceBackend
from tests.runtimes.asked import BACKEND, OPTIONS

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """An environment belongs to its loop."""
    return "asyncio"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, object]:
    """What a new workspace is opened with."""
    return {**OPTIONS, **({"cwd": str(tmp_path)} if BACKEND == "local" else {})}


async def test_what_a_command_wrote_comes_with_the_error(options: dict[str, object]) -> None:
    """When its time runs out, and when it writes too much."""
    workspace = HermesWorkspaceBackend(BACKEND, options)
    try:
        with pytest.raises(WorkspaceTimeoutError) as slow:
            await workspace.run("echo first; echo second >&2; sleep 600", shell=True, timeout=5)
        assert (slow.value.stdout, slow.value.stderr) == ("first\n", "second\n")
        with pytest.raises(WorkspaceOutputLimitError) as much:
            await workspace.run("head -c 20000000 /dev/zero | tr '\\0' x", shell=True)
        assert much.value.limit == 16 << 20 and much.value.stdout == "x" * (1 << 16)
        for wrong in (0, -1, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                await workspace.run(["true"], timeout=wrong)
        with pytest.raises(FileNotFoundError):
            await workspace.remove("/nowhere/at/all")
    finally:
        await workspace.destroy()


async def test_a_released_workspace_is_attached_to_again(options: dict[str, object]) -> None:
    """Its files are there; who made it has ended nothing."""
    workspace = HermesWorkspaceBackend(BACKEND, options)
    path = f"{await workspace.working_dir()}/file"
    await workspace.write_bytes(path, bytes(range(256)))
    ref = workspace.ref
    await workspace.release()
    assert await workspace.read_bytes(path) == bytes(range(256)) and workspace.ref == ref
    await workspace.release()
    await end(ref)


async def end(ref: WorkspaceRef | None) -> None:
    """Let a workspace that was left to others end itself: its keeper is one of its processes."""
    other = HermesWorkspaceBackend(BACKEND, ref=ref)
    if BACKEND == "docker":
        with contextlib.suppress(WorkspaceUnavailableError):
            await other.run(["kill", "-9", "-1"])
        with pytest.raises(WorkspaceUnavailableError):
            await other.working_dir()
    await other.release()


async def test_runs_of_a_conversation_share_a_workspace(options: dict[str, object]) -> None:
    """By its ref, which the message history has too, with the same variables; nothing stays open between them."""
    capability = HermesWorkspace(BACKEND, {**options, "env": {"KEPT": "with each run"}})
    agent = Agent(TestModel(call_tools=["count"]), capabilities=[capability])

    @agent.tool
    async def count(ctx: RunContext[None]) -> str:
        done = await ctx.workspace.run("echo >>lines; wc -l <lines; echo $KEPT", shell=True)
        return done.stdout

    result = await agent.run("Count.")
    assert '"1\\n' in result.output.replace(" ", "")
    first = result.workspace.ref
    for number in (2, 3):
        result = await agent.run("Count.", workspace=first)
        assert f'"{number}\\nwitheachrun' in result.output.replace(" ", "")
    told = await agent.run("Go on.", message_history=result.all_messages())
    assert told.workspace.ref == result.workspace.ref == first
    foreign = WorkspaceRef(provider="hermes_env", id="/etc" if BACKEND == "local" else "other://1")
    assert capability.get_workspace(None, ref=foreign) is None  # type: ignore[arg-type]
    assert capability.get_workspace(None, ref=WorkspaceRef(provider="other", id="1")) is None  # type: ignore[arg-type]
    await end(first)
