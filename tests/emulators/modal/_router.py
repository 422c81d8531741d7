"""The task command router: commands of a sandbox, their streams and their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import task_command_router_pb2 as pb

if TYPE_CHECKING:
    from ._sandbox import Exec, Sandbox
    from ._service import Call, Work
    from ._state import State


def work(sandbox: Sandbox) -> dict[str, Work]:
    """The RPCs of one sandbox's worker."""
    router = Router(sandbox)
    return {
        "TaskExecStart": router.start,
        "TaskExecStdinWrite": router.write,
        "TaskExecStdinWriteStream": router.write_stream,
        "TaskExecStdinStatus": router.stdin_status,
        "TaskExecStdioRead": router.read,
        "TaskExecPoll": router.poll,
        "TaskExecWait": router.wait,
        "SandboxStdinWriteV2": router.entry_write,
        "SandboxStdioReadV2": router.entry_read,
    }


class Router:
    """What the worker of a sandbox does."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._box = sandbox

    def _check(self, task_id: str) -> None:
        if task_id != self._box.task_id or self._box.result is not None:
            raise GRPCError(Status.NOT_FOUND, f"task {task_id} not found")

    def _find(self, request: Any) -> Exec:
        self._check(request.task_id)
        run = self._box.execs.get(request.exec_id)
        if run is None:
            raise GRPCError(Status.NOT_FOUND, f"exec {request.exec_id} not found")
        return run

    async def start(self, call: Call, request: pb.TaskExecStartRequest) -> pb.TaskExecStartResponse:
        """Start a command; the same id again is the same command."""
        call.entry["argv"] = list(request.command_args)
        self._check(request.task_id)
        self._check_argv(request)
        ongoing = self._box.starting.get(request.exec_id)
        if ongoing is None:
            ongoing = call.state.keep(self._start(call.state, request))
            self._box.starting[request.exec_id] = ongoing
        await asyncio.shield(ongoing)
        return pb.TaskExecStartResponse()

    def _check_argv(self, request: pb.TaskExecStartRequest) -> None:
        argv, limit = request.command_args, self._box.switches.max_argv_bytes
        size = sum(len(argument.encode()) for argument in argv)
        if not argv:
            raise GRPCError(Status.INVALID_ARGUMENT, "no command was given")
        if size > limit:
            raise GRPCError(Status.INVALID_ARGUMENT, f"argument list too long: {size} bytes, at most {limit}")
        if any("\0" in argument for argument in argv):
            raise GRPCError(Status.INVALID_ARGUMENT, "an argument contains NUL")
        if request.HasField("pty_info") or request.container_id:
            raise GRPCError(Status.UNIMPLEMENTED, "terminals and sidecars are not emulated")

    async def _start(self, state: State, request: pb.TaskExecStartRequest) -> Exec:
        kept = (
            request.stdout_config == pb.TASK_EXEC_STDOUT_CONFIG_PIPE,
            request.stderr_config == pb.TASK_EXEC_STDERR_CONFIG_PIPE,
        )
        run = await self._box.run(
            request.exec_id,
            list(request.command_args),
            {**state.secrets_of(request.secret_ids), **sources(state, request), **request.env},
            request.workdir or self._box.definition.workdir,
            kept=kept,
            merged=request.stderr_config == pb.TASK_EXEC_STDERR_CONFIG_STDOUT,
        )
        if request.timeout_secs and run.status is None:
            run.timer = asyncio.get_running_loop().call_later(request.timeout_secs, self._expire, state, run)
        return run

    def _expire(self, state: State, run: Exec) -> None:
        run.timed_out = True
        state.keep(self._box.place.kill(run.name))

    async def write(self, call: Call, request: pb.TaskExecStdinWriteRequest) -> pb.TaskExecStdinWriteResponse:
        """Take bytes of stdin from an offset on."""
        run = self._find(request)
        await self._write(call, run, request)
        return pb.TaskExecStdinWriteResponse()

    async def _write(self, call: Call, run: Exec, request: Any) -> None:
        self._box.last_activity = time.monotonic()
        if len(request.data) > self._box.switches.max_stdin_bytes:
            raise GRPCError(Status.INVALID_ARGUMENT, f"{len(request.data)} bytes of stdin in one message are too many")
        offset, data = request.offset, request.data
        for fault in call.faults:
            if fault.kind in ("abort", "hold_inside"):
                cut = int(fault.value)
                await run.stdin.write(offset, data[:cut], eof=False, is_whole=fault.kind != "abort")
                offset, data = offset + len(data[:cut]), data[cut:]
                if fault.kind == "abort":
                    call.drop(fault)
                await call.state.faults.hold(call.name)
        if request.eof and not data and self._box.switches.eof_after_exit == "taken" and run.status is not None:
            return
        await run.stdin.write(offset, data, eof=request.eof)

    async def write_stream(self, call: Call, messages: AsyncIterator[Any]) -> pb.TaskExecStdinWriteStreamResponse:
        """Take a stream of bytes of stdin; only its own end message ends stdin."""
        first = await anext(messages)
        run = self._find(first.start)
        call.entry["exec"] = run.name
        await self._evict(run)
        feeder = run.feeder = asyncio.ensure_future(self._feed(call, run, first.start.offset, messages))
        try:
            await feeder
        except asyncio.CancelledError:
            if run.feeder is feeder:  # the call itself was cut off
                feeder.cancel()
                raise
            raise GRPCError(Status.CANCELLED, "another call writes stdin") from None
        return pb.TaskExecStdinWriteStreamResponse()

    async def _feed(self, call: Call, run: Exec, offset: int, messages: AsyncIterator[Any]) -> None:
        seen, abort = 0, call.fault("abort")
        async for message in messages:
            if message.WhichOneof("payload") == "end":
                await run.stdin.write(offset, b"", eof=True)
                continue
            data = message.data
            if abort is not None and seen + len(data) >= abort.value:
                await run.stdin.write(offset, data[: int(abort.value) - seen], eof=False)
                call.drop(abort)
            await run.stdin.write(offset, data, eof=False)
            offset, seen = offset + len(data), seen + len(data)
            call.entry["size"] = seen
            self._box.last_activity = time.monotonic()

    async def _evict(self, run: Exec) -> None:
        feeder, run.feeder = run.feeder, None
        if feeder is not None and not feeder.done():
            feeder.cancel()
            await asyncio.wait([feeder])

    async def stdin_status(self, call: Call, request: pb.TaskExecStdinStatusRequest) -> pb.TaskExecStdinStatusResponse:
        """How much of stdin was taken; ends the stream that is being taken."""
        run = self._find(request)
        await self._evict(run)
        return pb.TaskExecStdinStatusResponse(num_bytes_written=run.stdin.written, closed=run.stdin.closed)

    async def read(
        self, call: Call, request: pb.TaskExecStdioReadRequest
    ) -> AsyncIterator[pb.TaskExecStdioReadResponse]:
        """The output of a command from an offset on, until it ends or the sandbox does."""
        run = self._find(request)
        is_stdout = request.file_descriptor == pb.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        call.entry["stream"], call.entry["offset"] = "stdout" if is_stdout else "stderr", request.offset
        kept = run.stdout if is_stdout else run.stderr
        async for data in self._parts(call, kept.parts(request.offset, self._box.switches.output_part)):
            yield pb.TaskExecStdioReadResponse(data=data)

    async def _parts(self, call: Call, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Output as faults let it through."""
        abort, slow, hold = call.fault("abort"), call.fault("slow"), call.fault("hold_inside")
        sent = 0
        async for data in parts:
            if abort is not None and sent + len(data) >= abort.value:
                if rest := data[: int(abort.value) - sent]:
                    yield rest
                call.drop(abort)
            yield data
            sent += len(data)
            call.entry["sent"] = sent
            if slow is not None:
                await asyncio.sleep(len(data) / slow.value)
            if hold is not None and sent >= hold.value:
                await call.state.faults.hold(call.name)
                hold = None

    async def poll(self, call: Call, request: pb.TaskExecPollRequest) -> pb.TaskExecPollResponse:
        """How a command ended, or nothing."""
        return pb.TaskExecPollResponse(**_status(self._find(request)))

    async def wait(self, call: Call, request: pb.TaskExecWaitRequest) -> pb.TaskExecWaitResponse:
        """How a command ended, when it has."""
        run = self._find(request)
        while run.status is None and self._box.result is None and not self._box.is_worker_gone:
            await run.changes.next()
        self._check(request.task_id)
        return pb.TaskExecWaitResponse(**_status(run))

    async def entry_write(self, call: Call, request: pb.SandboxStdinWriteV2Request) -> pb.SandboxStdinWriteV2Response:
        """Take bytes for the entrypoint."""
        self._check(request.task_id)
        assert self._box.entry is not None
        await self._write(call, self._box.entry, request)
        return pb.SandboxStdinWriteV2Response()

    async def entry_read(
        self, call: Call, request: pb.SandboxStdioReadV2Request
    ) -> AsyncIterator[pb.SandboxStdioReadV2Response]:
        """The output of the entrypoint, also after its end."""
        entry = self._box.entry
        if entry is None or request.task_id != self._box.task_id:
            raise GRPCError(Status.NOT_FOUND, f"task {request.task_id} not found")
        is_stdout = request.file_descriptor == pb.SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
        kept, offset = entry.stdout if is_stdout else entry.stderr, request.offset
        async for data in self._parts(call, kept.parts(offset, self._box.switches.output_part)):
            yield pb.SandboxStdioReadV2Response(data=data, starting_offset=offset)
            offset += len(data)


def _status(run: Exec) -> dict[str, int]:
    return {} if run.status is None else {run.status[0]: run.status[1]}


def sources(state: State, request: Any) -> Mapping[str, str]:
    """The variables of secrets: those known by id, and those that came with the request."""
    env: dict[str, str] = {}
    for source in request.secret_sources:
        if source.WhichOneof("source") == "secret_id":
            env.update(state.secrets_of([source.secret_id]))
        else:
            env.update(source.env.contents)
    return env
