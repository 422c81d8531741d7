"""The connection to a Docker engine, and the one place where its errors become ours."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, InvalidArgument

if TYPE_CHECKING:
    from docker import APIClient

INSTALL = "pip install 'hermes-env[docker]'"
_TIMEOUT = 60
"""Seconds for each answer of the engine: starting a container under full load takes 10."""
_DEFAULT = "unix:///var/run/docker.sock"
_POOL = 64
"""Idle connections kept: one command needs one while it starts."""


def missing() -> str | None:
    """Why the SDK cannot be used; it is not imported to find out."""
    return None if importlib.util.find_spec("docker") else "the package `docker` is not installed"


def connect(host: str | None) -> APIClient:
    """A client of the engine at `host`, or of the one that the `docker` command would use.

    Raises:
        BackendUnavailable: The SDK is not installed, or no engine answers.
        InvalidArgument: The address is of a kind that is not supported.
    """
    if problem := missing():
        raise BackendUnavailable(f"{problem}: {INSTALL}", reason="not_installed")
    from docker import APIClient

    address = host or os.environ.get("DOCKER_HOST") or _context_host() or _DEFAULT
    if not address.startswith(("unix://", "tcp://", "http://")):
        raise InvalidArgument("option 'host'", "only unix:// and tcp:// addresses are supported")
    if address.startswith("unix://"):
        _check_socket(address.removeprefix("unix://"))
    with engine_errors(f"engine at {address}"):
        return APIClient(base_url=address, version="auto", timeout=_TIMEOUT, max_pool_size=_POOL)


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


def _context_host() -> str | None:
    """The address of the docker context in use; None for the default one."""
    from docker import ContextAPI
    from docker.errors import DockerException

    try:
        context = ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError):
        return None
    if context is None or context.name == "default":
        return None
    return str(context.Host)


@contextlib.contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn what the SDK raises before anything was dispatched into our errors, by class and status code."""
    try:
        yield
    except Exception as error:
        known = _translate(error, what)
        if known is None:
            raise
        raise known from error


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
        text = f"{what}: no answer ({type(error).__name__}); is the Docker engine running?"
        return BackendUnavailable(text, reason="unreachable")
    return None


def _of_status(error: Any, what: str) -> HermesEnvError:
    from docker.errors import ImageNotFound

    status, said = error.status_code, str(error.explanation or error).strip()
    if isinstance(error, ImageNotFound):
        return BackendUnavailable(f"{what}: {said}; `docker pull` or build it first", reason="not_installed")
    if status == 404:
        return EnvironmentGone(f"{what}: {said}")
    if status in (401, 403):
        return BackendUnavailable(f"{what}: {said}", reason="denied")
    if status == 400:
        return InvalidArgument("options", f"{what}: {said}")
    return BackendUnavailable(f"{what}: {said}", reason="unreachable")


class Hijacked:
    """The raw connection of one exec, taken over from HTTP."""

    def __init__(self, stream: Any) -> None:
        # The SDK gives out a bare stream; its socket and its answer are where the documented recipes find them.
        self._stream, self._response = stream, stream._response  # noqa: SLF001
        self.socket: socket.socket = stream._sock  # noqa: SLF001
        self.socket.setblocking(False)
        # Output that came together with the answer's headers is in the reader's buffer.
        self.early = bytes(self._response.raw._fp.fp.peek(1) or b"")  # noqa: SLF001

    def shut(self, how: int) -> None:
        """Shut one or both directions; the other side may have done so already."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(how)

    def close(self) -> None:
        """Give the connection up."""
        self._response.close()
        self._stream.close()
        self.socket.close()
