"""A task that is cancelled, times out or ends with its loop leaves no command behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from hermes_env import CommandCancelled
from tests.integration.aio.conftest import marked_by, opening
from tests.processes import marked
from tests.waiting import eventually


def test_a_cancelled_task_kills_its_command(name: str, tmp_path: Path) -> None:
    """Cancelling a task in `exec` ends the command's tree before the cancellation is raised, and nothing else."""

    async def run() -> None:
        async with opening(name, tmp_path) as env:
            neighbour = await env.start("exec sleep 600")
            task = asyncio.create_task(env.exec('printf %s "$HERMES_ENV_COMMAND" >id; touch up; sleep 600 & sleep 600'))
            await eventually((tmp_path / "up").exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not marked((tmp_path / "id").read_text())
            assert neighbour.state in ("staging", "staged", "dispatched")
            await neighbour.kill()
            with pytest.raises(CommandCancelled):
                await neighbour.wait()
            assert (await env.exec("echo next")).stdout == b"next\n"

    asyncio.run(run())


def test_cancelled_again_while_it_kills(tmp_path: Path) -> None:
    """A second cancellation while the kill is under way leaves no command behind."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            script = 'printf %s "$HERMES_ENV_COMMAND" >id; touch up; sleep 600'
            task = asyncio.create_task(env.exec(script))
            await eventually((tmp_path / "up").exists)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not marked((tmp_path / "id").read_text())

    asyncio.run(run())


def test_asyncio_timeout_kills(tmp_path: Path) -> None:
    """`asyncio.timeout` around exec is a cancellation: the command is gone when it is over."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            script = 'printf %s "$HERMES_ENV_COMMAND" >id; sleep 600'
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(env.exec(script), 0.5)
        assert not marked_by(tmp_path)

    asyncio.run(run())


def test_task_group_kills_the_others(tmp_path: Path) -> None:
    """When one task of a group fails, the commands of the others are killed."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:

            async def together() -> None:
                async with asyncio.TaskGroup() as group:
                    for number in range(3):
                        group.create_task(env.exec(f'printf %s "$HERMES_ENV_COMMAND" >id{number}; sleep 600'))
                    group.create_task(env.exec("exit 1", check=True))

            with pytest.raises(ExceptionGroup):
                await together()
            assert not marked_by(tmp_path)

    asyncio.run(run())


def test_wait_that_runs_out_kills_nothing(name: str, tmp_path: Path) -> None:
    """`wait(timeout)` raises TimeoutError and the command goes on to its end."""

    async def run() -> None:
        async with opening(name, tmp_path) as env:
            process = await env.start("while [ ! -e go ]; do sleep 0.05; done; exit 5")
            with pytest.raises(TimeoutError):
                await process.wait(0.2)
            (tmp_path / "go").touch()
            assert (await process.wait()).exit_code == 5

    asyncio.run(run())


def test_interrupted_loop_leaves_nothing(tmp_path: Path) -> None:
    """A loop that ends while commands run, as after Ctrl-C, has killed them all."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            tasks = [
                asyncio.create_task(env.exec(f'printf %s "$HERMES_ENV_COMMAND" >id{n}; sleep 600')) for n in range(3)
            ]
            for n in range(3):
                await eventually((tmp_path / f"id{n}").exists)
            for task in tasks:
                # Closing kills the commands; nobody awaits these tasks, so nobody else would see how they ended.
                task.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert not marked_by(tmp_path)


def test_cancelled_while_opening(tmp_path: Path) -> None:
    """An opening that is cancelled closes what it made."""

    async def run() -> None:
        before = threading.active_count()
        task = asyncio.create_task(opening("local", tmp_path)._open())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert threading.active_count() <= before + 1

    asyncio.run(run())
