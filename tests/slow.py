"""What does not run by default, because it takes too long for everybody's every run."""

from __future__ import annotations

import os

import pytest

ALL = os.environ.get("HERMES_ENV_SLOW") == "1"
"""Whether slow tests run, too, and others with their whole numbers."""


def slow(why: str) -> pytest.MarkDecorator:
    """Marks a test that runs only where all do; `why` tells what takes how long."""
    return pytest.mark.skipif(not ALL, reason=told(why))


def told(why: str) -> str:
    """The reason of a skip."""
    return f"{why}: set HERMES_ENV_SLOW=1 to run it"
