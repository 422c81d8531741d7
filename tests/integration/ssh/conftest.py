"""Servers for the ssh tests: one that most of them share, and a way to start others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BaseEnvironment, open_environment
from tests import sshd
from tests.sshd import Sshd

Open = Callable[..., BaseEnvironment]


def need(*programs: str) -> None:
    """Skip with the reason where no server can run; fail there when the run requires one."""
    reason = sshd.missing(*programs)
    if reason is None:
        return
    if "ssh" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
        pytest.fail(f"HERMES_ENV_REQUIRE names ssh, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """The default server: the account's own shell, 10 sessions a connection."""
    need()
    with sshd.running(Sshd(tmp_path_factory.mktemp("sshd"))) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Starts servers with settings of their own."""
    need()
    with contextlib.ExitStack() as stack:

        def starter(**settings: Any) -> Sshd:
            folder = tmp_path / f"sshd{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return stack.enter_context(sshd.running(Sshd(folder, **settings)))

        yield starter


@pytest.fixture
def env(server: Sshd) -> Iterator[BaseEnvironment]:
    """An environment on the default server."""
    with open_environment("ssh", **server.options()) as opened:
        yield opened
