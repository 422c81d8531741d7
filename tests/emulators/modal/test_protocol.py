"""What the SDK never sends, asked by the messages themselves: offsets, ends and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from grpclib import GRPCError, Status
from grpclib.client import Channel
from modal_proto import task_command_router_pb2 as pb
from modal_proto.api_grpc import ModalClientStub
from modal_proto.api_pb2 import AuthTokenGetRequest, SandboxGetCommandRouterAccessRequest
from modal_proto.task_command_router_grpc import TaskCommandRouterStub

from tests.waiting import until

if TYPE_CHECKING:
    import modal

    from tests.emulators.modal.client import Emulator


class Worker:
    """A sandbox's worker, called without the SDK."""

    def __init__(self, stub: TaskCommandRouterStub, task_id: str, jwt: str) -> None:
        self.stub, self.task_id = stub, task_id
        self.metadata = {"authorization": f"Bearer {jwt}"}

    async def call(self, name: str, **fields: Any) -> Any:
        """An RPC with one request."""
        method = getattr(self.stub, name)
        return await method(method.request_type(task_id=self.task_id, **fields), metadata=self.metadata)

    async def refused(self, name: str, **fields: Any) -> Status:
        """The status of an RPC that fails."""
        with pytest.raises(GRPCError) as caught:
            await self.call(name, **fields)
        return caught.value.status

    async def write(self, offset: int, data: bytes, *, eof: bool = False) -> None:
        """Stdin of the command ``x``."""
        await self.call("TaskExecStdinWrite", exec_id="x", offset=offset, data=data, eof=eof)

    async def output(self, offset: int = 0) -> list[bytes]:
        """The messages of its stdout from an offset on."""
        request = pb.TaskExecStdioReadRequest(task_id=self.task_id, exec_id="x", offset=offset)
        parts = []
        async with self.stub.TaskExecStdioRead.open(metadata=self.metadata) as stream:
            await stream.send_message(request, end=True)
            async for part in stream:
                parts.append(part.data)  # noqa: PERF401  # a comprehension hides where it waits
        return parts


def channel(url: str) -> Channel:
    """To a server of the emulator."""
    parts = urlsplit(url)
    return Channel(parts.hostname, parts.port)


def with_worker(emulator: Emulator, box: modal.Sandbox, work: Callable[[Worker], Awaitable[None]]) -> None:
    """Call a sandbox's worker with a token that the control plane gives."""

    async def main() -> None:
        known = {"x-modal-token-id": emulator.token_id, "x-modal-token-secret": emulator.token_secret}
        async with channel(emulator.url) as control:
            stub = ModalClientStub(control)
            short = await stub.AuthTokenGet(AuthTokenGetRequest(), metadata=known)
            request = SandboxGetCommandRouterAccessRequest(sandbox_id=box.object_id)
            metadata = {**known, "x-modal-auth-token": short.token}
            access = await stub.SandboxGetCommandRouterAccess(request, metadata=metadata)
        async with channel(access.url) as link:
            task = emulator.sandboxes()[box.object_id]["task_id"]
            await work(Worker(TaskCommandRouterStub(link), task, access.jwt))
        await asyncio.sleep(0)  # closed transports end in the next turn of the loop

    asyncio.run(main())


PIPES: dict[str, Any] = {
    "stdout_config": pb.TASK_EXEC_STDOUT_CONFIG_PIPE,
    "stderr_config": pb.TASK_EXEC_STDERR_CONFIG_PIPE,
}


def test_stdin_is_addressed_by_offset(box: modal.Sandbox, emulator: Emulator) -> None:
    """What is there already is dropped, a gap is refused, and an end is an end once."""

    async def work(worker: Worker) -> None:
        await worker.call("TaskExecStart", exec_id="x", command_args=["cat"], **PIPES)
        await worker.write(0, b"abc")
        await worker.write(1, b"bcde")
        await worker.write(0, b"ab")
        fields = {"exec_id": "x", "offset": 6, "data": b"g"}
        assert await worker.refused("TaskExecStdinWrite", **fields) is Status.FAILED_PRECONDITION
        await worker.write(5, b"f", eof=True)
        await worker.write(5, b"f", eof=True)
        await worker.write(6, b"", eof=True)
        assert await worker.refused("TaskExecStdinWrite", **fields) is Status.FAILED_PRECONDITION
        status = await worker.call("TaskExecStdinStatus", exec_id="x")
        assert (status.num_bytes_written, status.closed) == (6, True)
        assert b"".join(await worker.output()) == b"abcdef"
        assert b"".join(await worker.output(4)) == b"ef" and await worker.output(6) == []

    with_worker(emulator, box, work)


def test_no_part_of_output_is_empty_or_too_long(box: modal.Sandbox, emulator: Emulator) -> None:
    """The SDK takes an empty one for an error."""

    async def work(worker: Worker) -> None:
        script = "printf a; sleep 0.1; head -c 300000 /dev/zero; printf b"
        await worker.call("TaskExecStart", exec_id="x", command_args=["sh", "-c", script], **PIPES)
        parts = await worker.output()
        assert b"".join(parts) == b"a" + bytes(300_000) + b"b"
        assert min(map(len, parts)) > 0 and max(map(len, parts)) <= emulator.switches["output_part"]
        assert await worker.output() == await worker.output(0)

    with_worker(emulator, box, work)


def test_one_id_is_one_command(box: modal.Sandbox, emulator: Emulator) -> None:
    """Also while the first call is not answered yet."""

    async def work(worker: Worker) -> None:
        start = {"exec_id": "x", "command_args": ["sh", "-c", "echo ran"], **PIPES}
        await asyncio.gather(*(worker.call("TaskExecStart", **start) for _ in range(5)))
        assert b"".join(await worker.output()) == b"ran\n"
        assert len(emulator.sandboxes()[box.object_id]["execs"]) == 2

    with_worker(emulator, box, work)


def test_a_running_command_has_no_status(box: modal.Sandbox, emulator: Emulator) -> None:
    """Poll answers nothing, wait answers when there is something."""

    async def work(worker: Worker) -> None:
        await worker.call("TaskExecStart", exec_id="x", command_args=["sh", "-c", "read x; kill -9 $$"], **PIPES)
        assert (await worker.call("TaskExecPoll", exec_id="x")).WhichOneof("exit_status") is None
        ended = asyncio.ensure_future(worker.call("TaskExecWait", exec_id="x"))
        await worker.write(0, b"\n")
        assert (await ended).signal == 9 and (await worker.call("TaskExecPoll", exec_id="x")).signal == 9

    with_worker(emulator, box, work)


def test_an_upload_stays_open_until_its_end_message(box: modal.Sandbox, emulator: Emulator) -> None:
    """A stream that just stops closes nothing, and the status ends one that is going on."""

    async def work(worker: Worker) -> None:
        await worker.call("TaskExecStart", exec_id="x", command_args=["cat"], **PIPES)
        start = pb.TaskExecStdinWriteStreamStart(task_id=worker.task_id, exec_id="x", offset=0)
        async with worker.stub.TaskExecStdinWriteStream.open(metadata=worker.metadata) as stream:
            await stream.send_message(pb.TaskExecStdinWriteStreamRequest(start=start))
            await stream.send_message(pb.TaskExecStdinWriteStreamRequest(data=b"abc"), end=True)
            await stream.recv_message()
        status = await worker.call("TaskExecStdinStatus", exec_id="x")
        assert (status.num_bytes_written, status.closed) == (3, False)
        with pytest.raises(GRPCError, match="another call"):
            await _interrupted(worker, emulator, box)
        await worker.write(5, b"f", eof=True)
        assert b"".join(await worker.output()) == b"abcdef"

    with_worker(emulator, box, work)


async def _interrupted(worker: Worker, emulator: Emulator, box: modal.Sandbox) -> None:
    """Write from the fourth byte on, and ask for the status before the end."""
    start = pb.TaskExecStdinWriteStreamStart(task_id=worker.task_id, exec_id="x", offset=3)
    async with worker.stub.TaskExecStdinWriteStream.open(metadata=worker.metadata) as stream:
        await stream.send_message(pb.TaskExecStdinWriteStreamRequest(start=start))
        await stream.send_message(pb.TaskExecStdinWriteStreamRequest(data=b"de"))
        await asyncio.to_thread(until, lambda: emulator.sandboxes()[box.object_id]["execs"]["x"]["stdin"] == 5)
        status = await worker.call("TaskExecStdinStatus", exec_id="x")
        assert (status.num_bytes_written, status.closed) == (5, False)
        await stream.recv_message()


def test_limits_and_strangers(box: modal.Sandbox, emulator: Emulator) -> None:
    """Too much in one message, unknown commands, tokens and tasks."""

    async def work(worker: Worker) -> None:
        await worker.call("TaskExecStart", exec_id="x", command_args=["cat"], **PIPES)
        too_much = {"exec_id": "x", "data": bytes((16 << 20) + 1)}
        assert await worker.refused("TaskExecStdinWrite", **too_much) is Status.INVALID_ARGUMENT
        await worker.write(0, b"", eof=True)
        too_long = ["true", *["x" * 65536] * 2]
        assert await worker.refused("TaskExecStart", exec_id="y", command_args=too_long) is Status.INVALID_ARGUMENT
        assert await worker.refused("TaskExecStart", exec_id="y") is Status.INVALID_ARGUMENT
        for name in ("TaskExecPoll", "TaskExecWait", "TaskExecStdinStatus"):
            assert await worker.refused(name, exec_id="z") is Status.NOT_FOUND
        assert await worker.refused("TaskSnapshotFilesystem") is Status.UNIMPLEMENTED
        stranger = Worker(worker.stub, "ta-other", worker.metadata["authorization"].removeprefix("Bearer "))
        assert await stranger.refused("TaskExecPoll", exec_id="x") is Status.NOT_FOUND
        stranger.metadata = {"authorization": "Bearer a.b.c"}
        assert await stranger.refused("TaskExecPoll", exec_id="x") is Status.UNAUTHENTICATED

    with_worker(emulator, box, work)
