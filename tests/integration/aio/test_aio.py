"""The awaitable names: the same results, cancellation that kills, and no thread that a command has to wait for."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes_env
from hermes_env import CommandCancelled, CommandFailed, CommandTimeout, OutcomeUnknown, aio
from hermes_env.files import Files as SyncFiles

STAGED = "tests.backends.uploads:UploadEnvironment"
BACKENDS = ("local", STAGED)
PATIENCE = 120.0


def opening(name: str, root: Path, **settings: Any) -> aio.Opening:
    """Open a backend whose commands run under a directory of the test."""
    if name == STAGED:
        settings["root"] = str(root)
    return aio.open_environment(name, cwd=str(root), **settings)


def marked(command_id: str) -> bool:
    """Whether a process with the id of a command among its variables is alive."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if command_id.encode() in environ.read_bytes():
                return True
        except OSError:
            continue
    return False


def marked_by(root: Path) -> bool:
    """Whether a process of a command that left its id in a file is alive."""
    return any(marked(text) for text in (path.read_text() for path in root.glob("id*")) if text)


async def until(check: Callable[[], bool]) -> None:
    """Wait for a state of the world that is bound to come."""
    await asyncio.to_thread(poll, check)


def poll(check: Callable[[], bool]) -> None:
    """Wait, on a thread, for a state of the world."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    """One backend after the other."""
    return str(request.param)


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many descriptors as the system allows, for the time of a test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_same_results(name: str, tmp_path: Path) -> None:
    """exec gives bytes, streams and exit code as the sync one does, and `check` raises."""

    async def run() -> None:
        async with opening(name, tmp_path) as env:
            data = bytes(range(256)) * 300
            result = await env.exec("cat; echo err >&2; exit 3", stdin=data)
            assert (result.stdout, result.stderr, result.exit_code) == (data, b"err\n", 3)
            with pytest.raises(CommandFailed):
                await env.exec("exit 3", check=True)
            with pytest.raises(FileNotFoundError):
                await env.exec("true", cwd="/nonexistent")
            with pytest.raises(CommandTimeout):
                await env.exec("sleep 600", timeout=0.5)
            assert await env.alive()
        assert not env.sync.alive()

    asyncio.run(run())


def test_open_by_await(tmp_path: Path) -> None:
    """An environment can also be awaited, and closed by hand."""

    async def run() -> None:
        env = await opening("local", tmp_path)
        assert (await env.exec("pwd")).stdout == os.fsencode(tmp_path) + b"\n"
        await env.close()
        with pytest.raises(hermes_env.EnvironmentGone):
            await env.exec("true")

    asyncio.run(run())


def test_a_cancelled_task_kills_its_command(name: str, tmp_path: Path) -> None:
    """Cancelling a task in `exec` ends the command's tree before the cancellation is raised, and nothing else."""

    async def run() -> None:
        async with opening(name, tmp_path) as env:
            neighbour = await env.start("exec sleep 600")
            task = asyncio.create_task(env.exec('printf %s "$HERMES_ENV_COMMAND" >id; touch up; sleep 600 & sleep 600'))
            await until((tmp_path / "up").exists)
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
            await until((tmp_path / "up").exists)
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


def test_output_while_it_runs(tmp_path: Path) -> None:
    """Iteration gives output as it arrives, and live stdin is answered."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            process = await env.start("while read -r line; do echo got $line; done; exit 4", live_stdin=True)
            output = aiter(process)
            for word in (b"one", b"two"):
                await process.write(word + b"\n")
                assert await anext(output) == ("stdout", b"got " + word + b"\n")
            await process.close_stdin()
            assert [chunk async for chunk in output] == []
            assert (await process.wait()).exit_code == 4

    asyncio.run(run())


def test_much_output_is_iterated_whole(tmp_path: Path) -> None:
    """A slow reader makes the command wait; no byte is lost and memory stays bounded."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            process = await env.start("head -c 30000000 /dev/zero", output_limit=100)
            total = 0
            async for _, chunk in process:
                total += len(chunk)
                await asyncio.sleep(0)
            result = await process.wait()
            assert result.stdout_total == 30_000_000
            assert total == 30_000_000 or result.truncated

    asyncio.run(run())


def test_on_output_runs_in_the_loop(name: str, tmp_path: Path) -> None:
    """`on_output` may be a coroutine function and runs in the event loop; what it raises kills the command."""

    async def run() -> None:
        loop_thread = threading.get_ident()
        got = bytearray()

        async def take(stream: str, data: bytes) -> None:
            assert threading.get_ident() == loop_thread
            await asyncio.sleep(0)
            got.extend(data)

        def fail(stream: str, data: bytes) -> None:
            raise ZeroDivisionError

        async with opening(name, tmp_path) as env:
            await env.exec("echo a; echo b", on_output=take)
            assert got == b"a\nb\n"
            with pytest.raises(ZeroDivisionError):
                await env.exec("echo a", on_output=fail)

    asyncio.run(run())


def test_async_iterable_as_stdin(name: str, tmp_path: Path) -> None:
    """stdin and file content may be async iterables; what they raise is raised."""

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(10):
            await asyncio.sleep(0)
            yield bytes([number]) * 1000

    async def broken() -> AsyncIterator[bytes]:
        yield b"part"
        raise ZeroDivisionError

    async def run() -> None:
        whole = b"".join([chunk async for chunk in chunks()])
        async with opening(name, tmp_path) as env:
            assert (await env.exec("cat", stdin=chunks())).stdout == whole
            assert (await env.files.write_bytes("f", chunks())).size == len(whole)
            with pytest.raises(ZeroDivisionError):
                await env.exec("cat", stdin=broken())

    asyncio.run(run())


def test_files(name: str, tmp_path: Path) -> None:
    """Files are written, read, listed and removed through awaitable names."""

    async def run() -> None:
        async with opening(name, tmp_path) as env:
            data = bytes(range(256)) * 5000
            assert (await env.files.write_bytes("sub/f", data, make_parents=True)).verified
            assert await env.files.read_bytes("sub/f") == data
            assert b"".join([chunk async for chunk in env.files.read_chunks("sub/f")]) == data
            assert [entry.size for entry in await env.files.list_dir("sub")] == [len(data)]
            with pytest.raises(FileNotFoundError):
                await env.files.read_bytes("missing")
            await env.files.remove("sub", recursive=True)
            assert not await env.files.exists("sub")

    asyncio.run(run())


def test_every_name_is_there() -> None:
    """Every public name of the sync classes has its awaitable twin."""
    for twin, sync in (
        (aio.Files, SyncFiles),
        (aio.Process, hermes_env.Process),
        (aio.Environment, hermes_env.BaseEnvironment),
        (aio.Session, hermes_env.Session),
        (aio.EnvironmentPool, hermes_env.EnvironmentPool),
    ):
        wanted = {each for each in vars(sync) if not each.startswith("_")}
        internal = {"run_here", "run_in_thread", "run_script", "open", "join", "probes"}
        assert wanted - internal - set(vars(twin)) == set()


def test_more_commands_than_slots(name: str, tmp_path: Path) -> None:
    """At the bound commands take turns, in order of arrival, and a kill needs no slot: nothing locks up."""

    async def run() -> None:
        async with opening(name, tmp_path, max_concurrency=2) as env:
            first = await env.start("sleep 600")
            second = await env.start("sleep 600")
            waiting = asyncio.create_task(env.exec("echo third"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            assert await env.files.exists(".")
            await first.kill()
            async with asyncio.timeout(PATIENCE):
                assert (await waiting).stdout == b"third\n"
            queued = asyncio.create_task(env.exec("touch never"))
            third = await env.start("sleep 600")
            queued.cancel()
            await asyncio.gather(second.kill(), third.kill())
            await asyncio.gather(queued, return_exceptions=True)
            for process in (first, second, third):
                with pytest.raises(CommandCancelled):
                    await process.wait()

    asyncio.run(run())


def test_five_hundred_at_once(tmp_path: Path, many_files: None) -> None:
    """500 commands run at the same time, each with its own bytes, and all are exact."""
    count = 500
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 5 * count:
        pytest.skip("the system allows too few descriptors")

    async def run() -> None:
        # Everybody has the read end of a pipe that nobody writes to, until all are there: they really run at once.
        os.mkfifo(tmp_path / "gate")
        gate = os.open(tmp_path / "gate", os.O_RDWR)

        async def one(env: aio.Environment, number: int) -> None:
            data = bytes([number % 251]) * 65_536
            script = f"exec 3<gate; : >up.{number}; read x <&3; exec cat"
            assert (await env.exec(script, stdin=data)).stdout == data

        async def release() -> None:
            await until(lambda: len(list(tmp_path.glob("up.*"))) == count)
            os.close(gate)

        async with opening("local", tmp_path) as env, asyncio.timeout(300):
            await asyncio.gather(release(), *(one(env, number) for number in range(count)))

    asyncio.run(run())


def test_interrupted_loop_leaves_nothing(tmp_path: Path) -> None:
    """A loop that ends while commands run, as after Ctrl-C, has killed them all."""

    async def run() -> None:
        async with opening("local", tmp_path) as env:
            tasks = [
                asyncio.create_task(env.exec(f'printf %s "$HERMES_ENV_COMMAND" >id{n}; sleep 600')) for n in range(3)
            ]
            for n in range(3):
                await until((tmp_path / f"id{n}").exists)
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


def test_outcome_unknown_is_passed_on(tmp_path: Path) -> None:
    """Errors that carry a result carry it here, too."""

    async def run() -> None:
        async with opening(STAGED, tmp_path) as env:
            env.sync.sdk.faults.arm("execute", "error_after", match=".sh'")  # type: ignore[attr-defined]
            link = env.sync.sdk.faults.arm("execute", "error_before", times=1000)  # type: ignore[attr-defined]
            with pytest.raises(OutcomeUnknown):
                await env.exec("true")
            link.times = 0

    asyncio.run(run())
