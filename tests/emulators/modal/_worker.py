"""The worker of one sandbox: a server of its own, which can vanish without the others."""

from __future__ import annotations

import asyncio
import socket
import weakref
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from grpclib.config import Configuration
from grpclib.encoding.base import StatusDetailsCodecBase
from grpclib.encoding.proto import ProtoCodec
from grpclib.server import Server
from modal_proto import api_pb2
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from . import _router
from ._service import Call, Service

if TYPE_CHECKING:
    from grpclib.protocol import H2Protocol

    from ._sandbox import Sandbox
    from ._state import State

CONFIGURATION = Configuration(http2_connection_window_size=64 << 20, http2_stream_window_size=64 << 20)
"""Windows of the size that the SDK itself opens (SDK grpc_utils), so that the largest drain is one flight."""


class Details(StatusDetailsCodecBase):
    """Details of an error, such as when to try again, as the SDK reads them (SDK grpc_utils).

    The SDK has such a codec, but importing it takes two seconds.
    """

    def encode(self, status: Status, message: str | None, details: Any) -> bytes:
        """The bytes of a header."""
        packed = api_pb2.RPCStatus(code=status.value, message=message or "")
        for detail in details or ():
            packed.details.add().Pack(detail, type_url_prefix="type.modal.com/")
        return packed.SerializeToString()

    def decode(self, status: Status, message: str | None, data: bytes) -> Any:
        """Nobody sends a server such details."""
        raise NotImplementedError


class CountingServer(Server):
    """A gRPC server on 127.0.0.1 that counts its connections and can cut them all."""

    def __init__(self, service: Service) -> None:
        super().__init__([service], codec=ProtoCodec(), status_details_codec=Details(), config=CONFIGURATION)
        self.accepted = 0
        self._links: weakref.WeakSet[H2Protocol] = weakref.WeakSet()

    def _protocol_factory(self) -> H2Protocol:
        link = super()._protocol_factory()
        self.accepted += 1
        self._links.add(link)
        return link

    def open_links(self) -> list[H2Protocol]:
        """The connections that are open."""
        return [link for link in self._links if hasattr(link, "connection") and not link.connection.is_closing()]

    def cut(self) -> None:
        """Close every connection, and accept no other."""
        self.close()
        for link in self.open_links():
            link.connection._transport.abort()


def listener() -> socket.socket:
    """A socket with an address of its own on 127.0.0.1.

    The protocol is named because grpclib turns Nagle's algorithm off only where it is; a call takes 50 ms otherwise.
    """
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    link.bind(("127.0.0.1", 0))
    return link


class Worker:
    """The worker of a sandbox. Its address is taken at once; it listens when the sandbox is scheduled."""

    def __init__(self, state: State, sandbox: Sandbox) -> None:
        self._state, self._sandbox = state, sandbox
        self._socket = listener()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = CountingServer(
            Service(TaskCommandRouterBase, _router.work(sandbox), state, self._authenticate, sandbox)
        )
        self._is_listening = False

    @property
    def accepted(self) -> int:
        """Connections so far."""
        return self._server.accepted

    @property
    def open(self) -> int:
        """Connections that are open."""
        return len(self._server.open_links())

    async def listen(self, delay: float) -> None:
        """Accept connections, after a delay."""
        if delay:
            self._state.keep(self._listen_after(delay))
        else:
            await self._listen()

    async def _listen_after(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._listen()

    async def _listen(self) -> None:
        if not self._sandbox.is_worker_gone:
            await self._server.start(sock=self._socket, backlog=1024)
            self._is_listening = True

    def vanish(self) -> None:
        """Cut every connection and listen no more."""
        if self._is_listening:
            self._server.cut()
        else:
            self._socket.close()

    def token(self) -> str:
        """A token for this worker."""
        return self._state.mint.make(self._sandbox.task_id, self._state.switches.jwt_seconds)

    def _authenticate(self, call: Call) -> None:
        token = call.metadata("authorization").removeprefix("Bearer ")
        if not self._state.mint.accepts(token, self._sandbox.task_id):
            raise GRPCError(Status.UNAUTHENTICATED, "the token is not valid, or not any more")
