"""Chapter aio: the awaitable names give the same results, and cancelling a task kills its command."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, CommandFailed, CommandTimeout, EnvironmentGone, OutcomeUnknown, aio

from ._check import equal, holds, same_bytes
from ._corpus import MIB, PATTERN
from ._lab import UNTIL_GO
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab

Body = Callable[[aio.Environment], Awaitable[None]]


class AioLaws:
    """`hermes_env.aio`, in an event loop of each law's own."""

    @law()
    def test_awaited_results_are_the_same(self, lab: Lab) -> None:
        """An awaited command gives bytes, streams, exit code and errors as the blocking one does."""

        async def body(env: aio.Environment) -> None:
            data = PATTERN.fill(200_000)
            result = await env.exec("cat; echo err >&2; exit 3", stdin=data)
            same_bytes("stdout", data, result.stdout if result.stderr else result.stdout.replace(b"err\n", b""))
            equal("exit code", 3, result.exit_code)
            with pytest.raises(CommandFailed):
                await env.exec("exit 3", check=True)
            with pytest.raises(FileNotFoundError):
                await env.exec("true", cwd=lab.path("missing"))
            with pytest.raises(CommandTimeout):
                await env.exec("sleep 600", timeout=0.1)
            same_bytes("the next command", b"next", (await env.exec("printf next")).stdout)

        _run(lab, body)

    @law()
    def test_an_environment_is_opened_and_closed_in_a_loop(self, lab: Lab) -> None:
        """`async with` opens an environment and closes it; then it refuses, and what ran in it is over."""

        async def main() -> None:
            async with aio.Opening(lab.bench.opener, 8) as env:
                equal("alive inside", True, await env.alive())
                process = await env.start("sleep 600")
            equal("alive afterwards", False, env.sync.alive())
            with pytest.raises((CommandCancelled, OutcomeUnknown)):
                await asyncio.wait_for(process.wait(), lab.patience)
            with pytest.raises(EnvironmentGone):
                await env.exec("true")

        asyncio.run(main())

    @law("kill_scope=command")
    def test_a_cancelled_task_kills_its_command(self, lab: Lab) -> None:
        """When a task is cancelled its command's tree has ended before the cancellation is raised; others live."""

        async def body(env: aio.Environment) -> None:
            other = await env.start(f"{UNTIL_GO}; echo survived", cwd=lab.root)
            task = asyncio.create_task(env.exec(_signing("up"), cwd=lab.root))
            await _until_exists(lab, "up")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await _expect_nothing_went_on(lab)
            same_bytes("stdout of the other", b"survived\n", (await other.wait(lab.patience)).stdout)

        _run(lab, body)

    @law("kill_scope=command")
    def test_a_task_cancelled_at_once_leaves_nothing(self, lab: Lab) -> None:
        """A task that is cancelled however early leaves no command that goes on, and none that runs twice."""

        async def body(env: aio.Environment) -> None:
            for turns in (0, 1, 2, 5):
                task = asyncio.create_task(env.exec(f"echo ran >>runs{turns}; {_signing('up')}", cwd=lab.root))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await _expect_nothing_went_on(lab)
            runs = lab.sh("cat runs* 2>/dev/null | wc -l; cat runs* 2>/dev/null | sort -u | wc -l").text.split()
            holds(int(runs[0]) <= 4, f"four commands ran {runs[0]} times")

        _run(lab, body)

    @law("kill_scope=command")
    def test_a_failing_task_ends_its_group(self, lab: Lab) -> None:
        """When one task of a group fails, the commands of the others have ended when the group has."""

        async def together(env: aio.Environment) -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(2):
                    group.create_task(env.exec(_signing(f"up{number}"), cwd=lab.root))
                await _until_exists(lab, "up0")
                await _until_exists(lab, "up1")
                group.create_task(env.exec("exit 1", check=True))

        async def body(env: aio.Environment) -> None:
            with pytest.raises(ExceptionGroup) as caught:
                await together(env)
            holds(caught.group_contains(CommandFailed), "the group does not hold the failure")
            await _expect_nothing_went_on(lab)

        _run(lab, body)

    @law()
    def test_an_awaited_wait_that_runs_out_kills_nothing(self, lab: Lab) -> None:
        """`await wait(timeout)` raises TimeoutError, the command goes on, and a later wait has its result."""

        async def body(env: aio.Environment) -> None:
            process = await env.start(f"{UNTIL_GO}; exit 5", cwd=lab.root)
            with pytest.raises(TimeoutError):
                await process.wait(0.05)
            await _sh(lab, ": >go")
            equal("exit code", 5, (await process.wait(lab.patience)).exit_code)

        _run(lab, body)

    @law()
    def test_async_iterables_are_stdin_and_content(self, lab: Lab) -> None:
        """An async iterable is stdin or a file's content, byte for byte, and what it raises is raised."""
        data = PATTERN.fill(300_000)

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(data), 70_000):
                await asyncio.sleep(0)
                yield data[start : start + 70_000]

        async def broken() -> AsyncIterator[bytes]:
            yield b"part"
            raise ZeroDivisionError

        async def body(env: aio.Environment) -> None:
            same_bytes("what cat gave back", data, (await env.exec("cat", stdin=chunks())).stdout)
            await env.files.write_bytes(lab.path("file"), chunks())
            with pytest.raises(ZeroDivisionError):
                await env.exec("cat", stdin=broken())

        _run(lab, body)
        lab.expect_file("a file written from an async iterable", lab.path("file"), data)

    @law()
    def test_many_awaited_commands_do_not_mix(self, lab: Lab) -> None:
        """Commands of many tasks at the same time keep their bytes and exit codes apart."""
        count = lab.scale(8, 24, 200)

        async def one(env: aio.Environment, number: int) -> None:
            data = b"%d " % number * 3000
            result = await env.exec(f"cat; exit {number % 200}", stdin=data)
            equal("exit code", number % 200, result.exit_code)
            same_bytes(f"stdout of {number}", data, result.stdout)

        async def body(env: aio.Environment) -> None:
            await asyncio.gather(*(one(env, number) for number in range(count)))

        _run(lab, body)

    @law()
    def test_at_the_bound_commands_take_turns(self, lab: Lab) -> None:
        """With every place taken a further command waits for its turn, a kill needs none, and files do not wait."""

        async def body(env: aio.Environment) -> None:
            first, second = [await env.start("sleep 600") for _ in range(2)]
            waiting = asyncio.create_task(env.exec("echo third"))
            equal("exists", True, await env.files.exists(lab.root))
            equal("whether it waits for its turn", False, waiting.done())
            await first.kill()
            result = await asyncio.wait_for(waiting, lab.patience)
            same_bytes("stdout of the one that waited", b"third\n", result.stdout)
            await second.kill()
            for process in (first, second):
                with pytest.raises(CommandCancelled):
                    await process.wait(lab.patience)

        _run(lab, body, at_once=2)

    @law()
    def test_the_loop_is_never_held_up(self, lab: Lab) -> None:
        """While commands run and files are carried, other tasks of the loop go on."""
        # Only a task of the loop, after some turns of it, lets a command go on.

        async def let(name: str) -> None:
            for _ in range(5):
                await asyncio.sleep(0.001)
            await _sh(lab, f": >{name}")

        async def body(env: aio.Environment) -> None:
            letting = asyncio.create_task(let("go"))
            process = await env.start(UNTIL_GO, cwd=lab.root)
            await process.wait(lab.patience)
            await letting
            letting = asyncio.create_task(let("on"))
            await env.exec(UNTIL_GO.replace("go", "on"), cwd=lab.root, timeout=lab.patience)
            await letting

        _run(lab, body)

    @law()
    def test_awaited_output_is_whole(self, lab: Lab) -> None:
        """Iterating in a loop gives every byte in order, and a slow reader makes the command wait."""
        size = lab.scale(1, 3, 12) * MIB

        async def body(env: aio.Environment) -> None:
            process = await env.start("cat", stdin=PATTERN.fill(size), output_limit=size)
            got = bytearray()
            async for _, chunk in process:
                got += chunk
                await asyncio.sleep(0)
            await process.wait(lab.patience)
            same_bytes("what was iterated", PATTERN.fill(size), bytes(got))

        _run(lab, body)

    @law()
    def test_callbacks_run_in_the_loop(self, lab: Lab) -> None:
        """`on_output` is called in the event loop, may be a coroutine function, and what it raises is raised."""
        threads: set[int] = set()
        got = bytearray()

        async def take(_: str, data: bytes) -> None:
            threads.add(threading.get_ident())
            await asyncio.sleep(0)
            got.extend(data)

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        async def body(env: aio.Environment) -> None:
            await env.exec("echo a; echo b", on_output=take)
            same_bytes("what came", b"a\nb\n", bytes(got))
            equal("threads that called", {threading.get_ident()}, threads)
            with pytest.raises(ZeroDivisionError):
                await env.exec("echo a", on_output=fail)

        _run(lab, body)

    @law()
    def test_files_are_awaitable(self, lab: Lab) -> None:
        """Files are written, read, listed and removed by awaitable names, with the same bytes and errors."""
        data, path = PATTERN.fill(150_000), lab.path("sub/file")

        async def body(env: aio.Environment) -> None:
            await env.files.write_bytes(path, data, make_parents=True)
            same_bytes("read", data, await env.files.read_bytes(path))
            same_bytes("read in chunks", data, b"".join([chunk async for chunk in env.files.read_chunks(path)]))
            equal("sizes", [len(data)], [entry.size for entry in await env.files.list_dir(lab.path("sub"))])
            with pytest.raises(FileNotFoundError):
                await env.files.read_bytes(lab.path("missing"))
            await env.files.remove(lab.path("sub"), recursive=True)
            equal("exists", False, await env.files.exists(path))

        _run(lab, body)

    @law()
    def test_a_cancelled_write_is_whole_or_not_at_all(self, lab: Lab) -> None:
        """A task that is cancelled while it writes leaves a file with its old bytes or its new ones."""
        old, new, path = b"old", PATTERN.fill(400_000), lab.path("file")

        async def body(env: aio.Environment) -> None:
            for delay in (0.0, 0.005, 0.02):
                await env.files.write_bytes(path, old)
                task = asyncio.create_task(env.files.write_bytes(path, new))
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                seen = await env.files.read_bytes(path)
                holds(seen in (old, new), f"the file holds {len(seen)} bytes, neither the old nor the new ones")
            names = await env.files.list_dir(lab.root)
            equal("names", ["file"], [entry.name for entry in names])

        _run(lab, body)

    @law("live_stdin")
    def test_awaited_live_stdin_is_a_conversation(self, lab: Lab) -> None:
        """What is written from a task arrives at once, and the answer can be awaited before the next write."""

        async def body(env: aio.Environment) -> None:
            process = await env.start("while IFS= read -r l; do echo got $l; done; exit 4", live_stdin=True)
            output = aiter(process)
            for word in (b"one", b"two"):
                await process.write(word + b"\n")
                same_bytes("answer", b"got " + word + b"\n", (await anext(output))[1])
            await process.close_stdin()
            equal("exit code", 4, (await process.wait(lab.patience)).exit_code)

        _run(lab, body)


def _run(lab: Lab, body: Body, *, at_once: int = 64) -> None:
    """Run a law in a loop of its own, on the environment that all laws share."""

    async def main() -> None:
        await body(aio.Environment(lab.env, max_concurrency=at_once))

    asyncio.run(main())
    gc.collect()  # The threads of the façade end with it.


def _signing(name: str) -> str:
    """A script that says when it runs, and leaves another sign should it go on."""
    return f"({UNTIL_GO}; : >on) & : >{name}; {UNTIL_GO}; : >on"


async def _sh(lab: Lab, script: str) -> None:
    await asyncio.to_thread(lab.sh, script)


async def _until_exists(lab: Lab, name: str) -> None:
    await asyncio.to_thread(lab.until_exists, name)


async def _expect_nothing_went_on(lab: Lab) -> None:
    await _sh(lab, ": >go")
    await asyncio.to_thread(time.sleep, lab.while_longer)
    holds(not await asyncio.to_thread(lab.exists, "on"), "a command went on after its task was cancelled")
