"""The SDK's way to a unix socket, without the socket that it leaves open when nothing listens. Imports the SDK."""

from __future__ import annotations

import socket
from typing import Any

from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool


class _Connection(UnixHTTPConnection):
    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self.unix_socket)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


class _Pool(UnixHTTPConnectionPool):
    def _new_conn(self) -> Any:
        timeout: Any = self.timeout
        return _Connection(self.base_url, self.socket_path, timeout)


class UnixAdapter(UnixHTTPAdapter):
    """Carries requests to the engine at a unix socket."""

    def get_connection(self, url: Any, proxies: Any = None) -> _Pool:  # noqa: ARG002 - the SDK's signature
        """The pool of connections for an address."""
        with self.pools.lock:
            pool = self.pools.get(url)
            if pool is None:
                pool = self.pools[url] = _Pool(url, self.socket_path, self.timeout, maxsize=self.max_pool_size)
            return pool
