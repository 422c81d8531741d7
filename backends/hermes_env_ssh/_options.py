"""What can be set for an SSH environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic.json_schema import SkipJsonSchema

from hermes_env import BackendOptions

Secret = SecretStr | SkipJsonSchema[Callable[[], str]]
"""A secret, or a function that gives it when it is needed."""


class SshOptions(BackendOptions):
    """Options of the backend ``ssh``. Whatever is not given comes from the OpenSSH client configuration."""

    host: str = Field(min_length=1)
    """Name or address, or a ``Host`` of the configuration."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: str | None = None
    """Account; None is the configuration's, else the name of the calling user."""
    key_file: str | list[str] | None = None
    """Private key files, instead of those of the configuration and of the agent."""
    passphrase: Secret | None = None
    """Opens encrypted key files; a callable is asked when it is needed."""
    password: Secret | None = None
    """Tried when no key is accepted; also answers keyboard-interactive questions that are not echoed."""
    agent: bool | None = None
    """Ask the agent at ``SSH_AUTH_SOCK``; None asks it unless `key_file` is given. It is never forwarded."""
    host_keys: Literal["reject", "accept-new"] | None = None
    """What to do with a host that no known-hosts file names; a changed key is always refused."""
    known_hosts: str | list[str] | None = None
    """Files to look in, instead of the configuration's; a new key is added to the first."""
    config: str | None = None
    """Client configuration to read; ``none`` reads none, None reads the user's and the system's."""
    jump: str | None = None
    """Hosts to go through, ``[user@]host[:port]`` with commas between, as ``ProxyJump``; ``none`` is a direct way."""
    proxy_command: str | None = None
    """Command whose standard streams are the connection, as ``ProxyCommand``; ``none`` is a direct way."""
    connect_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for each step of connecting, and for opening a channel; None is the configuration's, else 20."""
    alive_interval: Annotated[float, Field(gt=0)] | None = None
    """Seconds of silence after which the server is asked for a sign of life; None is the configuration's, else 15."""
    alive_count: Annotated[int, Field(ge=1)] | None = None
    """Intervals without an answer after which the connection is given up; None is the configuration's, else 3."""
    connections: Annotated[int, Field(ge=1, le=64)] = 1
    """Connections at most; the second is made when a command would have to wait for the first."""
