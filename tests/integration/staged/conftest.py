"""An open staged environment on a directory of the test, and what its SDK did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.uploads import UploadEnvironment
from tests.integration.staged.services import opened


@pytest.fixture
def env(tmp_path: Path) -> Iterator[UploadEnvironment]:
    """A staged environment; commands run in `tmp_path`."""
    with opened(tmp_path) as made:
        try:
            yield made
        finally:
            made.sdk.faults.release()
