"""What every call meets before and after its work: faults, authentication and the log."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from ._streams import Refused

if TYPE_CHECKING:
    from grpclib.const import Handler
    from grpclib.server import Stream

    from tests.emulators._faults import Fault

    from ._sandbox import Sandbox
    from ._state import State

Work = Callable[..., Any]
"""A coroutine function of a call and its message, or an asynchronous generator of them."""


class Dropped(Exception):
    """The connection was closed on purpose."""


@dataclass(slots=True)
class Call:
    """One call of one RPC."""

    name: str
    stream: Stream[Any, Any]
    state: State
    entry: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, kind: str) -> Fault | None:
        """The first fault of a kind that meets this call."""
        return next((fault for fault in self.faults if fault.kind == kind), None)

    def metadata(self, name: str) -> str:
        """A header of the call."""
        return str(self.stream.metadata.get(name, "")) if self.stream.metadata is not None else ""

    def drop(self, fault: Fault) -> None:
        """Close the connection under the client.

        Raises:
            Dropped: Always.
        """
        self.cut(fault)
        raise Dropped

    def cut(self, fault: Fault) -> None:
        """Close the connection under the client; the work is cancelled with it."""
        transport = self.stream._stream._transport
        if fault.reset:
            link = transport.get_extra_info("socket")
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


@functools.cache
def _shapes(base: type) -> dict[str, Handler]:
    """Path, cardinality and message types of every RPC of a service."""
    blank = type("Blank", (base,), dict.fromkeys(base.__abstractmethods__))()  # type: ignore[attr-defined]
    shapes: dict[str, Handler] = blank.__mapping__()
    return shapes


class Service:
    """A gRPC service of the protocol, of which some RPCs are there; the others answer UNIMPLEMENTED.

    Args:
        base: The generated class of the service.
        work: What the RPCs do, by name.
        state: Everything that the emulator knows.
        authenticate: Refuses calls that may not be made.
        sandbox: The only one whose worker this is; None is the control plane.
    """

    def __init__(
        self,
        base: type,
        work: dict[str, Work],
        state: State,
        authenticate: Callable[[Call], None],
        sandbox: Sandbox | None = None,
    ) -> None:
        self._base, self._work, self._state, self._authenticate = base, work, state, authenticate
        self._sandbox = sandbox

    def __mapping__(self) -> dict[str, Handler]:
        return {
            path: shape._replace(func=functools.partial(self._meet, path.rpartition("/")[2], shape))
            for path, shape in _shapes(self._base).items()
        }

    async def _meet(self, name: str, shape: Handler, stream: Stream[Any, Any]) -> None:
        sandbox = "" if self._sandbox is None else self._sandbox.id
        call = Call(name, stream, self._state, self._state.log.add(name, sandbox, at=time.monotonic(), status="open"))
        try:
            await self._answer(call, shape)
        except GRPCError as error:
            call.entry["status"] = error.status.name
            raise
        except Refused as error:
            call.entry["status"] = Status.FAILED_PRECONDITION.name
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from None
        except Dropped:
            call.entry["status"] = "dropped"
        except asyncio.CancelledError:
            call.entry["status"] = "cancelled"
            raise
        else:
            call.entry["status"] = Status.OK.name

    async def _answer(self, call: Call, shape: Handler) -> None:
        work = self._work.get(call.name)
        if work is None:
            raise GRPCError(Status.UNIMPLEMENTED, f"{call.name} is not emulated")
        if self._sandbox is not None:
            self._take_faults(call, call.name)
        if shape.cardinality.value.client_streaming:
            message: Any = _messages(call)
        else:
            message = await self._receive(call)
        await self._before(call)
        self._authenticate(call)
        if shape.cardinality.value.server_streaming:
            if (fault := call.fault("drop_during")) is not None:
                asyncio.get_running_loop().call_later(fault.value, call.cut, fault)
            async for part in work(call, message):
                await call.stream.send_message(part)
            await self._after(call)
        else:
            reply = await self._work_on(call, work, message)
            await self._after(call)
            await call.stream.send_message(reply)

    def _take_faults(self, call: Call, endpoint: str) -> None:
        call.faults += self._state.faults.take(endpoint, call.entry["sandbox"])

    async def _receive(self, call: Call) -> Any:
        if (fault := call.fault("abort_request")) is not None:
            link = call.stream._stream
            while link.data_received < fault.value and not link.buffer._eof:  # noqa: ASYNC110  # it tells of neither
                await asyncio.sleep(0.001)
            call.drop(fault)
        message = await call.stream.recv_message()
        if message is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "there was no request")
        if self._sandbox is None:
            call.entry["sandbox"] = getattr(message, "sandbox_id", "")
            self._take_faults(call, call.name)
        call.entry["exec"] = getattr(message, "exec_id", "")
        if isinstance(data := getattr(message, "data", None), bytes):
            call.entry["size"] = len(data)
        if getattr(message, "eof", False):
            call.entry["eof"] = True
            self._take_faults(call, f"{call.name}.eof")
        return message

    async def _before(self, call: Call) -> None:
        for fault in call.faults:
            if fault.kind == "delay":
                await asyncio.sleep(fault.value)
            elif fault.kind == "hold_before":
                await self._state.faults.hold(call.name)
            elif fault.kind == "drop_before":
                call.drop(fault)
            elif fault.kind == "status":
                raise GRPCError(Status(int(fault.value)), "emulated status")
            elif fault.kind == "throttle":
                wait = api_pb2.RPCRetryPolicy(retry_after_secs=fault.value)
                raise GRPCError(Status.RESOURCE_EXHAUSTED, "emulated throttling", [wait])
            elif fault.kind in ("sandbox_gone", "worker_gone"):
                await self._state.lose(call.entry["sandbox"], fault.kind.removesuffix("_gone"))

    async def _after(self, call: Call) -> None:
        for fault in call.faults:
            if fault.kind == "hold_after":
                await self._state.faults.hold(call.name)
            elif fault.kind == "drop_after":
                call.drop(fault)

    async def _work_on(self, call: Call, work: Work, message: Any) -> Any:
        key = call.metadata("x-idempotency-key")
        if self._sandbox is None and key and self._state.switches.idempotent:
            # The work of a call that is cut off goes on, and its repetition gets the answer.
            ongoing = self._state.answers.get((call.name, key))
            if ongoing is None or (ongoing.done() and (ongoing.cancelled() or ongoing.exception())):
                ongoing = self._state.keep(work(call, message))
                self._state.answers[call.name, key] = ongoing
        else:
            ongoing = None
        if (fault := call.fault("drop_during")) is not None:
            ongoing = ongoing or self._state.keep(work(call, message))
            await asyncio.sleep(fault.value)
            call.drop(fault)
        if ongoing is not None:
            return await asyncio.shield(ongoing)
        return await work(call, message)


async def _messages(call: Call) -> AsyncIterator[Any]:
    """The messages of a stream that the client sends."""
    async for message in call.stream:
        yield message
