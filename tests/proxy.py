"""A TCP proxy on loopback that can delay, stall, cut and reset what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

_CHUNK = 1 << 16


@dataclass
class Proxy:
    """Forwards connections to a port of this machine.

    Attributes:
        target: Port to forward to.
        delay: Seconds that every byte is late, each way.
        sent: Bytes that went to the server on all connections.
        received: Bytes that came from the server.
        connections: Connections that were accepted.
        on_up, on_down: Called with the total after each piece, before it is forwarded.
    """

    target: int
    delay: float = 0.0
    sent: int = 0
    received: int = 0
    connections: int = 0
    refuse: bool = False
    on_up: Callable[[int], None] | None = None
    on_down: Callable[[int], None] | None = None
    port: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _flowing: asyncio.Event | None = None

    # -- faults, from any thread ----------------------------------------------------------------------------------

    def stall(self) -> None:
        """Forward nothing any more, and keep every connection open."""
        self._call(self._set_flowing, False)

    def resume(self) -> None:
        """Forward again."""
        self._call(self._set_flowing, True)

    def cut(self) -> None:
        """Close all connections in an orderly way, in the middle of whatever is going on."""
        self._call(self._close_all, False)

    def reset(self) -> None:
        """End all connections by a TCP reset."""
        self._call(self._close_all, True)

    def _call(self, function: Callable[[bool], None], value: bool = True) -> None:
        if threading.current_thread().name == "test-proxy":
            function(value)
            return
        done = threading.Event()

        def work() -> None:
            function(value)
            done.set()

        self._loop.call_soon_threadsafe(work)
        assert done.wait(10)

    def _set_flowing(self, flowing: bool) -> None:
        assert self._flowing is not None
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    def _close_all(self, by_reset: bool) -> None:
        for writer in list(self._writers):
            if by_reset:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._writers.clear()

    # -- the work -------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refuse:
            writer.transport.abort()
            return
        up, down = await asyncio.open_connection("127.0.0.1", self.target)
        for end in (writer, down):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._writers |= {writer, down}
        self._start(self._forward(reader, down, self._count_up))
        self._start(self._forward(up, writer, self._count_down))

    def _count_up(self, size: int) -> None:
        self.sent += size
        if self.on_up is not None:
            self.on_up(self.sent)

    def _count_down(self, size: int) -> None:
        self.received += size
        if self.on_down is not None:
            self.on_down(self.received)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
    ) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        self._start(self._deliver(late, writer))
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                count(len(data))
                await late.put((self._loop.time() + self.delay, data))
        await late.put((self._loop.time() + self.delay, b""))

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        assert self._flowing is not None
        with contextlib.suppress(OSError):
            while True:
                due, data = await late.get()
                if (wait := due - self._loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self._flowing.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        self._flowing = asyncio.Event()
        self._flowing.set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        self._close_all(False)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.contextmanager
def proxied(target: int, *, delay: float = 0.0) -> Iterator[Proxy]:
    """A proxy in front of a port for the length of a with block."""
    proxy = Proxy(target, delay)
    ready, stop = threading.Event(), asyncio.Event()
    loop = proxy._loop
    thread = threading.Thread(target=lambda: loop.run_until_complete(proxy._run(ready, stop)), name="test-proxy")
    thread.start()
    try:
        assert ready.wait(10)
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
