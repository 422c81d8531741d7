"""Where the engine is: an address given, DOCKER_HOST or a context, with its certificates, or a tunnel over ssh."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hermes_env import BackendUnavailable, InvalidArgument

if TYPE_CHECKING:
    from docker.tls import TLSConfig

    from ._options import DockerOptions

_DEFAULT = "unix:///var/run/docker.sock"
_SSH_SOCKET = "/var/run/docker.sock"
"""The engine's socket on an ssh:// host that names no path."""
_SSH_READY = 60.0
"""Seconds for ssh to log in."""
_KINDS = ("unix", "tcp", "http", "https", "ssh")


@dataclass(frozen=True, slots=True)
class Address:
    """An engine's address.

    Attributes:
        url: ``unix://``, ``tcp://``, ``http://``, ``https://`` or ``ssh://``.
        tls: Certificates, when the connection is encrypted by TLS; the engine's own is always checked.
    """

    url: str
    tls: TLSConfig | None = None

    @property
    def half_close(self) -> bool:
        """Whether closing one direction of a connection leaves the other open: Python's TLS sockets cannot."""
        return self.tls is None


def find(options: DockerOptions) -> Address:
    """The engine that the options name, or the one that the `docker` command would use.

    Raises:
        InvalidArgument: The address is of a kind that is not supported, or its certificates are missing.
    """
    given = options.host or os.environ.get("DOCKER_HOST")
    if given:
        return _checked(given, options.tls or _tls_folder())
    context = _context()
    if context is None:
        return _checked(_DEFAULT, None)
    url, tls = context
    return Address(url, tls) if tls is not None else _checked(url, None)


def _checked(url: str, folder: str | None) -> Address:
    if urlsplit(url).scheme not in _KINDS:
        known = ", ".join(f"{kind}://" for kind in _KINDS)
        raise InvalidArgument("option 'host'", f"an engine's address begins with one of: {known}")
    if url.startswith("https://") and folder is None:
        folder = _home_folder()
    if folder is None or url.startswith(("unix://", "ssh://")):
        return Address(url)
    return Address(url, _certificates(folder))


def _tls_folder() -> str | None:
    """The folder of certificates that DOCKER_TLS_VERIFY and DOCKER_CERT_PATH ask for, as for the `docker` command."""
    path = os.environ.get("DOCKER_CERT_PATH") or None
    return path or (_home_folder() if os.environ.get("DOCKER_TLS_VERIFY") else None)


def _home_folder() -> str:
    return os.path.expanduser("~/.docker")


def _certificates(folder: str) -> TLSConfig:
    from docker.tls import TLSConfig

    paths = {name: os.path.join(folder, name) for name in ("ca.pem", "cert.pem", "key.pem")}
    missing = [path for path in paths.values() if not os.access(path, os.R_OK)]
    if missing:
        raise InvalidArgument("option 'tls'", f"cannot be read: {', '.join(missing)}")
    return TLSConfig(client_cert=(paths["cert.pem"], paths["key.pem"]), ca_cert=paths["ca.pem"], verify=True)


def _context() -> tuple[str, TLSConfig | None] | None:
    """Address and certificates of the docker context in use; None for the default one.

    Raises:
        InvalidArgument: DOCKER_CONTEXT names none, or what it names cannot be read.
    """
    from docker import ContextAPI

    name = os.environ.get("DOCKER_CONTEXT") or None
    try:
        context = ContextAPI.get_context(name) if name else ContextAPI.get_current_context()
    except Exception as error:
        # The SDK raises bare `Exception` for a context file that it cannot read.
        raise InvalidArgument("docker context", f"{name or 'the one in use'} cannot be read: {error}") from error
    if context is None:
        raise InvalidArgument("docker context", f"there is none named {name or 'as the one in use'}")
    if context.name == "default":
        return None
    tls = context.TLSConfig
    if tls is not None:
        tls.verify = True
    return str(context.Host), tls


class Tunnel:
    """A local socket that ssh forwards to the engine's socket on another host.

    One ssh process and one login for all connections; each keeps its two directions apart, so that stdin can be
    closed alone. Its settings are OpenSSH's own: host keys, agent, jumps. The process ends with this one, however
    that ends: its remote command waits for the end of its stdin, which is ours.
    """

    def __init__(self, url: str, config: str | None) -> None:
        """Log in and wait until the socket is there.

        Raises:
            BackendUnavailable: ssh is missing, or cannot log in.
            InvalidArgument: The address names no host.
        """
        self._folder = tempfile.mkdtemp(prefix="hermes-env-")
        path = os.path.join(self._folder, "docker.sock")
        self.url = f"unix://{path}"
        try:
            self._process = subprocess.Popen(
                _ssh_command(url, config, path),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            shutil.rmtree(self._folder)
            raise BackendUnavailable("ssh:// needs OpenSSH's `ssh`", reason="not_installed") from error
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        try:
            self._await(url)
        except BaseException:
            self.close()
            raise

    def _await(self, url: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        said, end = b"", time.monotonic() + _SSH_READY
        while b"hermes-env-tunnel\n" not in said:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            if not more:
                self._process.kill()
                text = self._process.stderr.read().decode("utf-8", "replace").strip()
                raise BackendUnavailable(f"{url}: ssh cannot log in: {text[-500:]}", reason="unreachable")
            said += more

    def close(self) -> None:
        """End ssh and remove the socket."""
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)


def _ssh_command(url: str, config: str | None, local: str) -> list[str]:
    parts = urlsplit(url)
    if not parts.hostname:
        raise InvalidArgument("option 'host'", "ssh:// names a host, such as ssh://user@host or ssh://host/run/x.sock")
    remote = parts.path if parts.path not in ("", "/") else _SSH_SOCKET
    settings = {
        # Nobody answers a prompt.
        "BatchMode": "yes",
        "ExitOnForwardFailure": "yes",
        "ControlPath": "none",
        # A dead link is noticed within a minute; the commands then end with OutcomeUnknown.
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "3",
    }
    return [
        "ssh",
        "-T",
        *(["-F", config] if config else []),
        *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")),
        *(["-p", str(parts.port)] if parts.port else []),
        *(["-l", parts.username] if parts.username else []),
        "-L",
        f"{local}:{remote}",
        "--",
        parts.hostname,
        "echo hermes-env-tunnel; exec cat >/dev/null",
    ]
