"""Backends that only exist to be judged: a plain wrapper, and some that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable, CommandEnvironment

if TYPE_CHECKING:
    from hermes_env import Launch


class EnvPrefix(CommandEnvironment):
    """A command-line tool around every command, as `kubectl exec -i` or bwrap would be."""

    def _argv(self, launch: Launch) -> list[str]:
        return ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", *launch.argv()]


class Unreachable(EnvPrefix):
    """Its provider does not answer."""

    def _open(self) -> None:
        raise BackendUnavailable("nobody answers; start the provider", reason="unreachable")
