"""The SDK: the only module that knows its names, since every release so far has changed them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import os
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable

if TYPE_CHECKING:
    from ._credentials import Credentials
    from ._options import VercelOptions

INSTALL = "pip install 'hermes-env[vercel]'"
DISTRIBUTION, SERIES = "vercel-sandbox", "0.10"
_BASE_URL = "HERMES_ENV_VERCEL_BASE_URL"
PRIVATE = 0o600
"""Mode of uploaded files: the SDK's own default is 0644."""
_ANSWER = 30.0
"""Seconds for each step of a request that is not a command."""
_STALL = 60.0
"""Seconds for each piece of a transfer; the SDK's own limit is 5 minutes."""
_BLOCK = 1 << 18
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A command's request has no time limit in the SDK: a connection whose other end has vanished is found out so."""
_MARK = "hermes-env-"


def problem() -> str | None:
    """Why the installed SDK cannot be used; it is not imported to find out."""
    try:
        found = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f"the package `{DISTRIBUTION}` is not installed; `vercel` brings it"
    if found.split(".")[:2] != SERIES.split("."):
        return f"{DISTRIBUTION} {found} is installed, and this backend works with {SERIES} only: its names change"
    return None


def load() -> Any:
    """The SDK's module.

    Raises:
        BackendUnavailable: It is not installed, or in another version.
    """
    if (reason := problem()) is not None:
        raise BackendUnavailable(f"{reason}: {INSTALL}", reason="not_installed")
    return importlib.import_module("vercel.sandbox.sync")


def ambient_credentials() -> tuple[str, str, str]:
    """Token, team and project as the SDK finds them in the environment, an OIDC token before VERCEL_TOKEN.

    It looks at no file but VERCEL_OIDC_TOKEN_FILE.

    Raises:
        RuntimeError: There are none, or they are not complete.
    """
    found = importlib.import_module("vercel.oidc.credentials").get_credentials()
    return found.token, found.team_id, found.project_id


# -- errors -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error of the SDK says, whatever its class."""

    status: int | None = None
    """Status of the answer; None when there was none."""
    code: str | None = None


def failure_of(error: BaseException) -> Failure | None:
    """What one of the SDK's errors says; None for any other error."""
    sdk = load()
    if isinstance(error, sdk.SandboxFilesystemWriteError | sdk.SandboxPathNotFoundError):
        return failure_of(error.cause)
    if isinstance(error, sdk.SandboxApiError):
        return Failure(error.status_code, error.code)
    if isinstance(error, sdk.SandboxStreamError):
        return Failure(code=error.code)
    if isinstance(error, (sdk.SandboxError, _http().TransportError)):
        return Failure()
    return None


# -- the service --------------------------------------------------------------------------------------------------


class Service:
    """The service with these credentials, over connections of its own."""

    def __init__(self, options: VercelOptions, credentials: Callable[[], Credentials]) -> None:
        sdk = self._sdk = load()
        credentials()  # Missing ones are found out here, and not with the first request.
        base_url = options.base_url or os.environ.get(_BASE_URL) or "https://vercel.com/api"
        self._http = _client_for(base_url)
        self._client = sdk.SyncSandboxClient.create(
            options=sdk.SandboxServiceOptions(
                base_url=base_url,
                credentials_factory=lambda: _as_sdk(sdk, credentials()),
                file_transfer_timeout=timedelta(seconds=_STALL),
                region=options.region,
            ),
            # One client for all threads: the SDK would make one for each of those that come first.
            httpx_client_factory=lambda: self._http,
        )

    def create(self, options: VercelOptions, tags: Mapping[str, str]) -> Box:
        """A running sandbox; waits as long as the service says that it is on its way."""
        made = self._client.create_sandbox(
            name=options.name,
            image=options.image,
            execution_time_limit=options.execution_time_limit,
            resources=self._resources(options),
            persistent=False,
            network_policy=self._policy(options),
            env=options.sandbox_env or None,
            tags=dict(tags),
        )
        return Box(made)

    def _resources(self, options: VercelOptions) -> Any:
        if options.vcpus is None and options.memory is None:
            return None
        return self._sdk.SandboxResources(vcpus=options.vcpus, memory=options.memory)

    def _policy(self, options: VercelOptions) -> Any:
        policy = self._sdk.NetworkPolicy
        if not options.network:
            return policy.deny_all()
        if not (options.domain_allow or options.network_allow):
            return None
        allow, deny = options.network_allow or None, options.network_deny or None
        subnets = self._sdk.NetworkPolicySubnets(allow=allow, deny=deny) if allow or deny else None
        return policy.custom(dict.fromkeys(options.domain_allow, ()), subnets)

    def find(self, name: str) -> Box:
        """A sandbox by name, as it is now; a stopped one is not resumed."""
        return Box(self._client.get_sandbox(name=name))

    def all(self, tag: tuple[str, str] | None = None) -> Iterator[Box]:
        """The sandboxes of the project, or those with one tag."""
        query = None if tag is None else self._sdk.TagFilter(key=tag[0], value=tag[1])
        for box in self._client.query_sandboxes(query=self._sdk.SandboxQueryByCreatedAt(tag=query)):
            yield Box(box)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._http.close()


def _as_sdk(sdk: Any, found: Credentials) -> Any:
    return sdk.SandboxCredentials(token=found.token, team_id=found.team, project_id=found.project)


def _http() -> Any:
    return importlib.import_module("httpx2")


def _client_for(base_url: str) -> Any:
    http = _http()
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [(socket.IPPROTO_TCP, getattr(socket, n), v) for n, v in _KEEPALIVE.items() if hasattr(socket, n)]
    transport = http.HTTPTransport(
        verify=_certificates(),
        # A command holds its connection: with the SDK's own limit of 100 the next one would wait for nothing.
        limits=http.Limits(max_connections=None, max_keepalive_connections=20),
        proxy=_proxy_for(base_url),
        socket_options=options,
    )
    return http.Client(transport=transport, timeout=_ANSWER)


@functools.cache
def _certificates() -> Any:
    """Whom to trust: reading that takes tens of milliseconds, and every environment has a client."""
    return _http().create_ssl_context()


def _proxy_for(base_url: str) -> str | None:
    """The proxy that the environment names for an address; none on this machine."""
    parts = urllib.parse.urlsplit(base_url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


# -- one sandbox --------------------------------------------------------------------------------------------------


class Box:
    """One sandbox, and the session that it had when it was found.

    Everything is asked of that session: the SDK's own sandbox would resume another one, and send again what the first
    may have done already.
    """

    def __init__(self, box: Any) -> None:
        self._box = box
        self._session = box.current_session

    @property
    def name(self) -> str:
        """Its name, unique in the project."""
        return str(self._box.name)

    @property
    def status(self) -> str:
        """State of the session as it was told last."""
        return "without a session" if self._session is None else str(self._session.status.value)

    @property
    def cwd(self) -> str | None:
        """The session's working directory: images differ."""
        return None if self._session is None else self._session.cwd

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""
        return dict(self._box.tags or {})

    @property
    def expires_at(self) -> datetime | None:
        """When the service stops the session."""
        if self._session is None or self._session.execution_time_limit is None:
            return None
        begin = self._session.started_at or self._session.requested_at
        return None if begin is None else datetime.fromtimestamp(begin / 1000, UTC) + self._session.execution_time_limit

    def refresh(self) -> None:
        """Ask for the session's state."""
        self._session.refresh()

    def extend(self, seconds: float) -> None:
        """Let the session live longer, as far as the plan allows."""
        self._session.extend_execution_time_limit(seconds)

    def retag(self, tags: Mapping[str, str]) -> None:
        """Replace its tags."""
        self._box.update(tags=dict(tags))

    def stop(self) -> None:
        """Stop the session; what runs in it ends."""
        self._session.stop()

    def destroy(self) -> None:
        """Remove it, and what it may have kept."""
        self._box.destroy(delete_orphan_snapshots=True)

    # -- commands -------------------------------------------------------------------------------------------------

    def run(self, text: str, mark: str = "", started: Callable[[], None] = lambda: None) -> str:
        """Run command text to its end and return its output.

        Args:
            text: What ``/bin/sh -c`` gets.
            mark: An id that is no secret, by which `kill` finds the command.
            started: Called when the service says that it runs.
        """
        return self.finish(text, mark, started)[1]

    def finish(self, text: str, mark: str = "", started: Callable[[], None] = lambda: None) -> tuple[int, str]:
        """As `run`; exit code and output."""
        done = self._session.run_process(
            "/bin/sh",
            ["-c", text, _MARK + mark],
            cwd=self._session.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            on_start=lambda _: started(),
        )
        return done.returncode, done.stdout or ""

    def begin(self, text: str, mark: str) -> None:
        """Start command text and leave it to itself."""
        self._session.create_process("/bin/sh", ["-c", text, _MARK + mark], cwd=self._session.cwd)

    def kill(self, mark: str) -> int:
        """Let the service end the commands with this mark that run; how many those were."""
        marked = [p for p in self._session.query_processes() if p.returncode is None and _MARK + mark in p.args]
        for process in marked:
            process.kill()
        return len(marked)

    # -- files ----------------------------------------------------------------------------------------------------

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Upload files in one request; each is written or not by itself."""
        with self._session.fs.batch() as batch:
            for path, content in files:
                batch.write_bytes(path, content, mode=PRIVATE)

    def write_stream(self, path: str, chunks: Iterator[bytes], size: int) -> None:
        """Upload a file as a stream of exactly `size` bytes: without its length the SDK keeps a copy on this disk."""
        with self._session.fs.open(path, "wb", size=size, permissions=PRIVATE) as file:
            for chunk in chunks:
                file.write(chunk)

    def read(self, path: str) -> Iterator[bytes]:
        """A file as the service sends it."""
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(self._session.fs.open(path, "rb"))
            while chunk := file.read(_BLOCK):
                yield chunk
