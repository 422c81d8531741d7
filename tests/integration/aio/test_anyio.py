"""The awaitable names in task groups and cancel scopes of anyio; trio, which they refuse, has the blocking ones."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes_env import CommandCancelled, aio
from tests.processes import marked
from tests.waiting import eventually


def test_a_cancel_scope_kills_its_command(tmp_path: Path) -> None:
    """When a scope ends, the command in it has ended with its children, and the scope takes its own cancellation."""

    async def main() -> None:
        async with aio.open_environment("local", cwd=str(tmp_path)) as env:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(end_when_up, scope)
                    await env.exec('echo "$HERMES_ENV_COMMAND" >id; (sleep 600) & : >up; sleep 600')
            assert scope.cancelled_caught
            assert not marked((tmp_path / "id").read_text().strip())
            assert (await env.exec("echo next")).text == "next\n"

    async def end_when_up(scope: anyio.CancelScope) -> None:
        await eventually((tmp_path / "up").exists)
        scope.cancel()

    anyio.run(main)


def test_a_cancel_scope_takes_its_own_cancellation_from_files(tmp_path: Path) -> None:
    """A write that is cancelled ends whole or not at all, and the scope, not the caller, gets the cancellation."""
    old, new = b"old", b"y" * 20_000_000

    async def main() -> None:
        async with aio.open_environment("local", cwd=str(tmp_path)) as env:
            await env.files.write_bytes("file", old)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await env.files.write_bytes("file", new)
            assert scope.cancelled_caught
            assert await env.files.read_bytes("file") in (old, new)

    anyio.run(main)


async def together(*calls: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run these in one group."""
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call)


def test_a_failing_task_of_a_group_ends_the_others(tmp_path: Path) -> None:
    """One failure ends the group: no command of it goes on."""

    async def main() -> None:
        async with aio.open_environment("local", cwd=str(tmp_path)) as env:
            process = await env.start('echo "$HERMES_ENV_COMMAND" >id; : >up; sleep 600')

            async def fail() -> None:
                await eventually((tmp_path / "up").exists)
                raise ZeroDivisionError

            with pytest.raises(ExceptionGroup):
                await together(process.wait, fail)
            assert not marked((tmp_path / "id").read_text().strip())
            with pytest.raises(CommandCancelled):
                await process.wait()

    anyio.run(main)


def test_trio_is_refused_and_leaves_nothing() -> None:
    """Under trio there is no asyncio loop: opening fails at once, before anything was made."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await aio.open_environment("local")

    anyio.run(main, backend="trio")
