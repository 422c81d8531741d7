"""The asynchronous interface gives what the synchronous one gives: results, streams, files and errors."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import hermes_env
from hermes_env import CommandCancelled, CommandFailed, CommandTimeout, OutcomeUnknown, aio
from hermes_env.files import Files as SyncFiles
from tests.integration.aio.conftest import STAGED, opening
from tests.waiting import eventually


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
            async with asyncio.timeout(60):
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
            await eventually(lambda: len(list(tmp_path.glob("up.*"))) == count)
            os.close(gate)

        async with opening("local", tmp_path) as env, asyncio.timeout(300):
            await asyncio.gather(release(), *(one(env, number) for number in range(count)))

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
