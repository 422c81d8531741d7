"""Faults in the awaitable names: each is put into `hermes_env.aio` when the broken environment opens.

A mutant has a process of its own, so what it changes there is seen by nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from hermes_env import ExecResult, aio
from hermes_env.aio import _environment as inner

from ._broken import Broken, mutant

_HOLDS = "test_the_streams_are_kept_apart"
Process, Environment, Files = aio.Process, aio.Environment, aio.Files


class Patched(Broken):
    """Changes one method of `hermes_env.aio`."""

    where: ClassVar[tuple[Any, str]]
    change: ClassVar[Callable[..., Any]]

    def _open(self) -> None:
        super()._open()
        owner, name = self.where
        change = type(self).__dict__["change"].__func__
        original = getattr(owner, name)
        if getattr(original, "mutant", False):
            return

        def changed(*args: Any, **settings: Any) -> Any:
            return change(original, *args, **settings)

        changed.mutant = True  # type: ignore[attr-defined]
        setattr(owner, name, changed)


@mutant("awaited exit codes lost", "test_awaited_results_are_the_same", "test_many_awaited_commands_do_not_mix")
class AwaitLosesExitCode(Patched):
    where = (Environment, "exec")

    @staticmethod
    async def change(original: Any, *args: Any, **settings: Any) -> Any:
        result = await original(*args, **settings)
        fields = {name: getattr(result, name) for name in ExecResult.__dataclass_fields__}
        return ExecResult(**{**fields, "exit_code": 0})


@mutant(
    "an awaited environment that is not closed",
    "test_an_environment_is_opened_and_closed_in_a_loop",
)
class AwaitNeverCloses(Patched):
    where = (aio.Opening, "__aexit__")

    @staticmethod
    async def change(original: Any, opening: Any, *rest: Any) -> None:
        return


@mutant(
    "a cancelled task that leaves its command",
    "test_a_cancelled_task_kills_its_command",
    "test_a_task_cancelled_at_once_leaves_nothing",
    "test_a_failing_task_ends_its_group",
)
class CancelLeavesCommand(Patched):
    where = (Process, "_kill_and_wait")

    @staticmethod
    async def change(original: Any, process: Any) -> None:
        return


@mutant("an awaited wait that runs out and kills", "test_an_awaited_wait_that_runs_out_kills_nothing")
class AwaitedWaitKills(Patched):
    where = (Process, "wait")

    @staticmethod
    async def change(original: Any, process: Any, *timeout: Any) -> Any:
        try:
            return await original(process, *timeout)
        except TimeoutError:
            await process.kill()
            raise


@mutant("the first chunk of an async iterable lost", "test_async_iterables_are_stdin_and_content")
class LosesFirstChunk(Patched):
    where = (Environment, "blocking")

    @staticmethod
    def change(original: Any, env: Any, data: Any) -> Any:
        found = original(env, data)
        if hasattr(data, "__aiter__"):
            return (chunk for index, chunk in enumerate(found) if index)
        return found


@mutant("a kill that waits for a place of its own", "test_at_the_bound_commands_take_turns")
class KillNeedsPlace(Patched):
    where = (Process, "kill")

    @staticmethod
    async def change(original: Any, process: Any) -> None:
        async with process._env._slots:
            await original(process)


@mutant("a wait that holds up the loop", "test_the_loop_is_never_held_up")
class HoldsUpLoop(Patched):
    where = (Process, "wait")

    @staticmethod
    async def change(original: Any, process: Any, *timeout: Any) -> Any:
        return process.sync.wait(*timeout)


@mutant("awaited output that ends early", "test_awaited_output_is_whole", "test_awaited_live_stdin_is_a_conversation")
class OutputEndsEarly(Patched):
    where = (Process, "__aiter__")

    @staticmethod
    async def change(original: Any, process: Any) -> Any:
        first = True
        async for item in original(process):
            if first:
                yield item
            first = False


@mutant("callbacks on a thread of their own", "test_callbacks_run_in_the_loop")
class CallbacksElsewhere(Patched):
    where = (inner, "call_in_loop")

    @staticmethod
    def change(original: Any, loop: Any, call: Any, stream: Any, data: bytes) -> None:
        answer = call(stream, data)
        if asyncio.iscoroutine(answer):
            asyncio.run(answer)


@mutant("awaited reads that give text's line ends", "test_files_are_awaitable")
class AwaitedReadsText(Patched):
    where = (Files, "read_bytes")

    @staticmethod
    async def change(original: Any, *args: Any, **settings: Any) -> Any:
        return (await original(*args, **settings)).replace(b"\r", b"")


@mutant("a cancelled write that leaves its beginning", "test_a_cancelled_write_is_whole_or_not_at_all")
class CancelledWriteTears(Patched):
    where = (Files, "write_bytes")

    @staticmethod
    async def change(original: Any, files: Any, path: str, data: Any, **settings: Any) -> Any:
        try:
            await asyncio.sleep(0.03)
        except asyncio.CancelledError:
            await original(files, path, data[:1000])
            raise
        return await original(files, path, data, **settings)
