"""What to connect to, after options and configuration have been put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._hosts import KnownHosts
    from ._options import Secret


@dataclass(frozen=True, slots=True)
class Target:
    """One host, and how to get in.

    Attributes:
        host: Name or address to connect to.
        port: TCP port.
        user: Account.
        known: What is known of its host key.
        key_files: Private keys to try; those that do not exist are skipped unless `keys_required`.
        keys_required: The caller named the key files: one that cannot be used is an error.
        agent_socket: Where the agent listens; None asks no agent.
        agent_listed_only: Of the agent's keys use only those whose public half lies beside one of `key_files`.
        passphrase, password: Secrets, or who gives them when they are needed.
        jumps: Hosts to go through, nearest first.
        proxy_command: Command whose streams are the connection.
        connect_timeout: Seconds for each step.
        alive_interval: Seconds of silence before the server is asked for a sign of life.
        alive_count: Unanswered intervals after which the connection is given up.
    """

    host: str
    port: int
    user: str
    known: KnownHosts
    key_files: tuple[str, ...] = ()
    keys_required: bool = False
    agent_socket: str | None = None
    agent_listed_only: bool = False
    passphrase: Secret | None = None
    password: Secret | None = None
    jumps: tuple[Target, ...] = ()
    proxy_command: str | None = None
    connect_timeout: float = 20.0
    alive_interval: float = 15.0
    alive_count: int = 3

    @property
    def name(self) -> str:
        """The target for messages."""
        return f"{self.user}@{self.host}:{self.port}"
