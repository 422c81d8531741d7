"""A TCP proxy in front of an engine's socket that cuts connections where a test says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.engine import Engine


@dataclass
class Cut:
    """Where to cut a connection, counted from a request whose first line holds `request`."""

    request: str
    at: str
    """``before``: the request does not arrive; ``unanswered``: it does, its answer is lost; ``body``: see `after`."""
    after: int = 0
    """Bytes after the head of the answer that still get through."""
    done: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Listens on loopback while it is open."""

    def __init__(self, engine: Engine) -> None:
        self._target = engine.host
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.cut: Cut | None = None
        self.host = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.cut_all()
        for thread in list(self._threads):
            thread.join()

    def cut_all(self) -> None:
        """End every connection, and take no new ones."""
        for sock in list(self._sockets):
            _shut(sock)
            sock.close()

    def drop_all(self) -> None:
        """End every connection; new ones are taken."""
        for sock in self._sockets[1:]:
            _shut(sock)

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            server = self._connect()
            self._sockets.append(server)
            link = _Link(self, client, server)
            self._spawn(link.up)
            self._spawn(link.down)

    def _connect(self) -> socket.socket:
        if self._target.startswith("unix://"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target.removeprefix("unix://"))
            return server
        host, _, port = self._target.partition("://")[2].rpartition(":")
        return socket.create_connection((host, int(port)))


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._cut: Cut | None = None
        self._head = b""
        self._body: int | None = None

    def up(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(1 << 16):
                cut = self._proxy.cut
                if cut is not None and cut.request.encode() in data.partition(b"\r\n")[0]:
                    self._cut, self._proxy.cut = cut, None
                    if cut.at == "before":
                        self._end()
                        return
                self._server.sendall(data)
            self._server.shutdown(socket.SHUT_WR)

    def down(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 16):
                if self._cut is not None and not self._pass(data, self._cut):
                    return
                if self._cut is None:
                    self._client.sendall(data)
            _shut(self._client)

    def _pass(self, data: bytes, cut: Cut) -> bool:
        """Let through what comes before the cut; False once it is made."""
        if cut.at == "unanswered":
            self._end()
            return False
        if self._body is None:
            self._head += data
            head, separator, data = self._head.partition(b"\r\n\r\n")
            if not separator:
                # The engine writes the head of its answer in pieces.
                return True
            self._client.sendall(head + separator)
            self._body = 0
        part = data[: cut.after - self._body]
        self._client.sendall(part)
        self._body += len(part)
        if self._body < cut.after:
            return True
        self._end()
        return False

    def _end(self) -> None:
        """Close towards the client only: the engine goes on, as when a network is cut."""
        _shut(self._client)
        assert self._cut is not None
        self._cut.done.set()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
