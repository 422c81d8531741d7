"""The connection to a Docker engine, and the one place where its errors become ours."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, InvalidArgument, sdk_errors

from . import _address

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

    from ._options import DockerOptions

INSTALL = "pip install 'hermes-env[docker]'"
_TIMEOUT = 60
"""Seconds for each answer of the engine: starting a container under full load takes 10."""
_POOL = 64
"""Idle connections kept: one command needs one while it starts."""


def missing() -> str | None:
    """Why the SDK cannot be used; it is not imported to find out."""
    return None if importlib.util.find_spec("docker") else "the package `docker` is not installed"


class Link:
    """The engine's API, with the way to it.

    Attributes:
        api: The SDK's client.
        half_close: Whether a command's stdin can be closed while its output goes on.
    """

    def __init__(self, options: DockerOptions) -> None:
        """Connect to the engine that the options name, or to the one that the `docker` command would use.

        Raises:
            BackendUnavailable: The SDK is not installed, or no engine answers.
            InvalidArgument: The address or its certificates cannot be used.
        """
        if problem := missing():
            raise BackendUnavailable(f"{problem}: {INSTALL}", reason="not_installed")
        address = _address.find(options)
        self.half_close = address.half_close
        self._tunnel = _address.Tunnel(address.url, options.ssh_config) if address.url.startswith("ssh://") else None
        try:
            self.api = _connect(address, self._tunnel.url if self._tunnel else address.url)
        except BaseException:
            self._close_tunnel()
            raise

    def close(self) -> None:
        """Give up every connection."""
        self.api.close()
        self._close_tunnel()

    def _close_tunnel(self) -> None:
        if self._tunnel is not None:
            self._tunnel.close()


def _connect(address: _address.Address, url: str) -> APIClient:
    from docker.constants import MINIMUM_DOCKER_API_VERSION

    if url.startswith("unix://"):
        _check_socket(url.removeprefix("unix://"))
    with engine_errors(f"engine at {address.url}"):
        asking = _api(url, address.tls, MINIMUM_DOCKER_API_VERSION)
        try:
            version = asking.version(api_version=False)["ApiVersion"]
        finally:
            asking.close()
        return _api(url, address.tls, version)


def _api(url: str, tls: TLSConfig | None, version: str) -> APIClient:
    from docker import APIClient
    from requests.adapters import HTTPAdapter

    from ._unix import UnixAdapter

    api = APIClient(base_url=url, version=version, tls=tls or False, timeout=_TIMEOUT, max_pool_size=_POOL)
    # REQUESTS_CA_BUNDLE would replace our certificates, and a proxy cannot carry a command's connection.
    api.trust_env = False
    if url.startswith("unix://"):
        api.mount("http+docker://", UnixAdapter(f"http+{url}", _TIMEOUT, max_pool_size=_POOL))
    else:
        # The SDK sizes the pool of unix sockets only.
        api.mount("https://", HTTPAdapter(pool_maxsize=_POOL))
        api.mount("http://", HTTPAdapter(pool_maxsize=_POOL))
    return api


def _check_socket(path: str) -> None:
    """Connect once ourselves: the SDK hides the errno, and leaks the socket when it cannot connect.

    Raises:
        BackendUnavailable: Nothing listens, or this user may not connect.
    """
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(_TIMEOUT)
        try:
            trial.connect(path)
        except PermissionError as error:
            hint = "this user may not use the engine's socket: join the group `docker`, or give host="
            raise BackendUnavailable(f"{path}: {hint}", reason="denied") from error
        except OSError as error:
            problem = f"{path}: {error.strerror or error}; is the Docker engine running?"
            raise BackendUnavailable(problem, reason="unreachable") from error


def engine_errors(what: str) -> contextlib.AbstractContextManager[None]:
    """Turn what the SDK raises before anything was dispatched into our errors, by class and status code."""
    return sdk_errors(what, _translate)


@contextlib.contextmanager
def dispatch_errors(what: str) -> Iterator[None]:
    """As `engine_errors`, but a link lost on the way may have started the command.

    Raises:
        ConnectionError: It is not known whether the command was started.
    """
    try:
        with engine_errors(what):
            yield
    except BackendUnavailable as error:
        if error.reason == "unreachable" and status_of(error) is None:
            raise ConnectionError(str(error)) from error
        raise


def status_of(error: BaseException) -> int | None:
    """The status code with which the engine refused; None when it did not answer."""
    from docker.errors import APIError

    cause = error.__cause__
    return cause.status_code if isinstance(cause, APIError) else None


def _translate(error: Exception, what: str) -> HermesEnvError | None:
    import requests
    from docker import errors

    if isinstance(error, errors.APIError):
        return _of_status(error, what)
    if isinstance(error, requests.exceptions.RequestException | errors.DockerException):
        if refusal := _tls_refusal(error):
            return BackendUnavailable(f"{what}: TLS: {refusal}", reason="denied")
        text = f"{what}: no answer ({type(error).__name__}); is the Docker engine running?"
        return BackendUnavailable(text, reason="unreachable")
    return None


def _tls_refusal(error: BaseException) -> str | None:
    """What TLS has against the other side, or the other side against our certificate."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ssl.SSLError):
        seen = seen.__context__
    return None if seen is None else str(seen)


def _of_status(error: Any, what: str) -> HermesEnvError:
    from docker.errors import ImageNotFound

    status, said = error.status_code, str(error.explanation or error).strip()
    if isinstance(error, ImageNotFound):
        return BackendUnavailable(f'{what}: {said}; build it, or give pull="missing"', reason="not_installed")
    if status == 404:
        return EnvironmentGone(f"{what}: {said}")
    if status in (401, 403):
        return BackendUnavailable(f"{what}: {said}", reason="denied")
    if status == 400:
        return InvalidArgument("options", f"{what}: {said}")
    return BackendUnavailable(f"{what}: {said}", reason="unreachable")


class Hijacked:
    """The raw connection of one exec, taken over from HTTP; reads and writes never block."""

    def __init__(self, stream: Any) -> None:
        # The SDK gives out a bare stream, or the TLS socket itself; its answer is where the documented recipes find it.
        self._stream, self._response = stream, stream._response  # noqa: SLF001
        self._tls = isinstance(stream, ssl.SSLSocket)
        self._socket: socket.socket = stream if self._tls else stream._sock  # noqa: SLF001
        # OpenSSL takes one call at a time for one connection; writer and reader are two threads.
        self._turn = threading.Lock() if self._tls else contextlib.nullcontext()
        self._socket.setblocking(False)
        self.early = self._early()

    def _early(self) -> bytes:
        """Output that came together with the answer's headers: it is in the reader's buffer."""
        try:
            return bytes(self._response.raw._fp.fp.peek(1) or b"")  # noqa: SLF001 - as above
        except ssl.SSLWantReadError:
            return b""

    def fileno(self) -> int:
        """What to poll, unless `pending`."""
        return self._socket.fileno()

    def pending(self) -> bool:
        """Bytes have come that polling does not show: TLS has decrypted them already."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, data: memoryview) -> int:
        """Send what is taken now; how much.

        Raises:
            BlockingIOError: Nothing is.
            OSError: The connection has ended.
        """
        with self._turn, _plain_errors():
            return self._socket.send(data)

    def receive(self, into: memoryview) -> int:
        """Take what has come; 0 at the end.

        Raises:
            BlockingIOError: Nothing has.
            OSError: The connection was broken.
        """
        with self._turn, _plain_errors():
            return self._socket.recv_into(into)

    def ended(self) -> bool:
        """Whether the other side is gone, on a connection whose output does not matter."""
        try:
            return self.receive(memoryview(bytearray(4096))) == 0
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close_write(self) -> None:
        """Say that nothing more will be sent; over TLS that cannot be said without ending both directions."""
        if not self._tls:
            self._shut(socket.SHUT_WR)

    def shut(self) -> None:
        """End both directions, and wake who waits."""
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        """The other side may have done so already."""
        with contextlib.suppress(OSError):
            # A TLS socket's own method would go on in plain text.
            socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Give the connection up."""
        self._response.close()
        self._stream.close()
        self._socket.close()


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """TLS's own errors as those of any other socket."""
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
        raise BlockingIOError(errno.EAGAIN, "not now") from error
    except ssl.SSLError as error:
        raise ConnectionResetError(errno.ECONNRESET, str(error)) from error
