"""A staged environment with options of the test, and what its clients leave at the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_env import (
    open_environment,
)
from tests.backends.uploads import UploadEnvironment

BACKEND = "tests.backends.uploads:UploadEnvironment"
EVERY_BYTE = bytes(range(256))


def opened(root: Path, **options: Any) -> UploadEnvironment:
    """An environment with options of the test."""
    root.mkdir(exist_ok=True)
    env = open_environment(BACKEND, root=str(root), cwd=str(root), **options)
    assert isinstance(env, UploadEnvironment)
    return env


def homes(root: Path) -> list[Path]:
    """Private directories of clients of one service."""
    return sorted((root / "tmp").glob(".hermes-env.*"))
