"""Environments whose ``/bin/sh`` is one shell after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BaseEnvironment, open_environment
from tests.backends import boxed
from tests.backends.shells import SHELLS, install

BOXED = [label for label in SHELLS if label != "bash --posix"]  # By the name sh, bash is in that mode anyway.
TRANSPORTS = {
    "pipe": "tests.backends.boxed:BoxedEnvironment",
    "framed": "tests.backends.boxed:FramedEnvironment",
    "staged": "tests.backends.uploads:UploadEnvironment",
    "heredoc": "tests.backends.textonly:TextEnvironment",
}

Opener = Callable[..., BaseEnvironment]


@pytest.fixture(params=SHELLS)
def label(request: pytest.FixtureRequest) -> str:
    """One shell after the other."""
    return str(request.param)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """One way to carry a command after the other."""
    return str(request.param)


@pytest.fixture
def open_shell(tmp_path: Path, label: str, transport: str) -> Iterator[Opener]:
    """Opens an environment with that shell and transport, and with noise of the test."""
    with ExitStack() as stack:

        def opener(*, noise: dict[str, str] | None = None, umask: int = 0o022) -> BaseEnvironment:
            options: dict[str, Any]
            if transport in ("pipe", "framed"):
                options = {"sh": boxed_shell(label), "noise": noise, "umask": f"{umask:03o}"}
            else:
                root = tmp_path / "service"
                root.mkdir(exist_ok=True)
                options = {"sh": install(tmp_path / "shell", label), "variables": noise, "umask": umask}
                options["root"] = str(root)
            env = open_environment(TRANSPORTS[transport], cwd=str(tmp_path), timeout=120, **options)
            return stack.enter_context(env)

        yield opener


def boxed_shell(label: str) -> str:
    """The program to bind over ``/bin/sh``; skips the test where that cannot be."""
    program = shutil.which(SHELLS[label])
    if label not in BOXED:
        pytest.skip("bash by the name sh is in posix mode")
    if program is None:
        pytest.skip(f"{label} is not installed")
    if not boxed.available():
        pytest.skip("mount namespaces are not allowed here")
    return program
