"""What all tests of the asynchronous interface use: two backends, and a look at their processes."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import aio
from tests.processes import marked

STAGED = "tests.backends.uploads:UploadEnvironment"
BACKENDS = ("local", STAGED)


def opening(name: str, root: Path, **settings: Any) -> aio.Opening:
    """Open a backend whose commands run under a directory of the test."""
    if name == STAGED:
        settings["root"] = str(root)
    return aio.open_environment(name, cwd=str(root), **settings)


def marked_by(root: Path) -> bool:
    """Whether a process of a command that left its id in a file is alive."""
    return any(marked(text) for text in (path.read_text() for path in root.glob("id*")) if text)


@pytest.fixture(params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    """One backend after the other."""
    return str(request.param)


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many descriptors as the system allows, for the time of a test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
