"""An open staged environment on a directory of the test, and what its SDK did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_env import open_environment
from tests.backends.uploads import UploadEnvironment

BACKEND = "tests.backends.uploads:UploadEnvironment"


@pytest.fixture
def env(tmp_path: Path) -> Iterator[UploadEnvironment]:
    """A staged environment; commands run in `tmp_path`."""
    opened = open_environment(BACKEND, root=str(tmp_path), cwd=str(tmp_path))
    assert isinstance(opened, UploadEnvironment)
    with opened:
        try:
            yield opened
        finally:
            opened.sdk.faults.release()
