"""An open local environment, and the same machine behind wrappers that carry less."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hermes_env import BaseEnvironment, CommandEnvironment, Launch, open_environment

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wrapped(CommandEnvironment):
    """A command-line tool that hands nothing on: variables, directory and odd bytes travel on stdin."""

    def _argv(self, launch: Launch) -> list[str]:
        return ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", *launch.argv()]


class Framed(Wrapped):
    """The same, where closing stdin does not reach the command."""

    capabilities = replace(CommandEnvironment.capabilities, half_close=False)


@pytest.fixture
def local() -> Iterator[BaseEnvironment]:
    """The backend `local`."""
    with open_environment("local") as env:
        yield env


@pytest.fixture(params=["local", "wrapped", "framed"])
def env(request: pytest.FixtureRequest) -> Iterator[BaseEnvironment]:
    """Three ways to carry a command on this machine."""
    made = {"local": lambda: open_environment("local"), "wrapped": Wrapped, "framed": Framed}[request.param]()
    with made:
        yield made
