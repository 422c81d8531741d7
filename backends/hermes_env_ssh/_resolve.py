"""Puts options and client configuration together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes_env import InvalidArgument

from ._config import SYSTEM_FILE, USER_FILE, HostConfig, expand_command, expand_path
from ._hosts import KnownHosts, known_name
from ._place import parse_place
from ._target import Target

if TYPE_CHECKING:
    from ._options import SshOptions

_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_KNOWN = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_SYSTEM_KNOWN = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_MAX_HOPS = 8
"""Jump hosts in a row, against configurations that name each other."""


def resolve(options: SshOptions) -> Target:
    """What to connect to.

    Raises:
        InvalidArgument: The configuration or a jump host cannot be understood.
    """
    return _Resolver(options).target()


class _Resolver:
    def __init__(self, options: SshOptions) -> None:
        self._options = options
        self._files = _config_files(options.config)

    def target(self) -> Target:
        options = self._options
        config = self._config(options.host, options.user)
        port = options.port or _number(config, "port", 22)
        return self._build(
            config,
            port,
            jumps=self._jumps(config, options.jump, options.proxy_command, 0),
            proxy_command=self._proxy_command(config, port),
            final=True,
        )

    def _config(self, host: str, user: str | None) -> HostConfig:
        return HostConfig(host, user, self._files)

    def _build(
        self,
        config: HostConfig,
        port: int,
        *,
        jumps: tuple[Target, ...],
        proxy_command: str | None,
        final: bool,
    ) -> Target:
        options = self._options
        tokens = {**config.tokens, "p": str(port)}
        listed = _tuple(options.key_file)
        return Target(
            host=config.host_name,
            port=port,
            user=config.user,
            known=self._known(config, port, tokens),
            key_files=listed or _paths(config.words("identityfile") or _KEYS, tokens),
            keys_required=bool(listed),
            agent_socket=self._agent_socket(config, tokens),
            agent_listed_only=_flag(config, "identitiesonly"),
            passphrase=options.passphrase,
            # A password is for the host that was named, never for those on the way.
            password=options.password if final else None,
            jumps=jumps,
            proxy_command=proxy_command,
            connect_timeout=options.connect_timeout or _number(config, "connecttimeout", 20),
            alive_interval=options.alive_interval or _number(config, "serveraliveinterval", 15),
            alive_count=options.alive_count or _number(config, "serveralivecountmax", 3),
        )

    def _known(self, config: HostConfig, port: int, tokens: Mapping[str, str]) -> KnownHosts:
        files = _tuple(self._options.known_hosts)
        if not files:
            mine = _paths(config.words("userknownhostsfile") or _KNOWN, tokens)
            files = mine + _paths(config.words("globalknownhostsfile") or _SYSTEM_KNOWN, tokens)
        policy = self._options.host_keys or config.get("stricthostkeychecking") or "reject"
        alias = config.get("hostkeyalias")
        name = alias.lower() if alias is not None else known_name(config.host_name, port)
        return KnownHosts(
            name,
            tuple(os.path.expanduser(path) for path in files),
            # `no` would also accept a key that has changed; that is not to be had here.
            accept_new=policy.lower() in ("accept-new", "no", "off"),
        )

    def _agent_socket(self, config: HostConfig, tokens: Mapping[str, str]) -> str | None:
        wanted = self._options.agent
        if wanted is False or (wanted is None and self._options.key_file is not None):
            return None
        named = config.get("identityagent")
        if named is None or named == "SSH_AUTH_SOCK":
            return os.environ.get("SSH_AUTH_SOCK")
        return None if named.lower() == "none" else expand_path(named, tokens)

    # -- the way --------------------------------------------------------------------------------------------------

    def _proxy_command(self, config: HostConfig, port: int) -> str | None:
        if self._options.jump is not None and self._options.proxy_command is None:
            return None
        command = self._options.proxy_command or config.get("proxycommand")
        if command is None or command.lower() == "none":
            return None
        return expand_command(command, {**config.tokens, "p": str(port)})

    def _jumps(self, config: HostConfig, jump: str | None, proxy_command: str | None, depth: int) -> tuple[Target, ...]:
        """The hosts to go through, nearest first; the nearest one may have jump hosts of its own."""
        if proxy_command is not None and jump is None:
            return ()
        spec = jump or config.get("proxyjump") or "none"
        if spec.lower() == "none":
            return ()
        if depth >= _MAX_HOPS:
            raise InvalidArgument("jump", f"more than {_MAX_HOPS} jump hosts in a row")
        nearest, *others = (hop.strip() for hop in spec.split(","))
        return (self._hop(nearest, depth, first=True), *(self._hop(o, depth) for o in others))

    def _hop(self, spec: str, depth: int, *, first: bool = False) -> Target:
        user, host, port = parse_place("jump", spec.removeprefix("ssh://").rstrip("/"))
        config = self._config(host, user)
        number = port or _number(config, "port", 22)
        jumps = self._jumps(config, None, None, depth + 1) if first else ()
        command = config.get("proxycommand") if first else None
        if command is not None and command.lower() != "none":
            command = expand_command(command, {**config.tokens, "p": str(number)})
        else:
            command = None
        return self._build(config, number, jumps=jumps, proxy_command=command, final=False)


def _config_files(config: str | None) -> tuple[str, ...]:
    if config is None:
        return (USER_FILE, SYSTEM_FILE)
    if config.lower() == "none":
        return ()
    path = os.path.expanduser(config)
    if not os.path.exists(path):
        raise InvalidArgument("config", f"{config}: no such file")
    return (path,)


def _paths(words: list[str] | tuple[str, ...], tokens: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand_path(word, tokens) for word in words if word.lower() != "none")


def _number(config: HostConfig, directive: str, default: int) -> int:
    """A number of the configuration; 0 and ``none`` leave the default, which is never `for ever`."""
    value = config.get(directive)
    if value is None or value.lower() == "none":
        return default
    if not value.isdigit():
        raise InvalidArgument("config", f"{directive}: {value!r} is not a whole number")
    return int(value) or default


def _flag(config: HostConfig, directive: str) -> bool:
    return (config.get(directive) or "no").lower() in ("yes", "true")


def _tuple(value: str | list[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
