"""Venvs of agent runtimes: what runs in them is theirs, and this package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITES = {
    "inspect_ai": 44,
    "pydantic_ai": 40,
    "deepagents": 86,
    "hermes_agent": 11,
}
"""Tests of each suite, in the version of `tests/runtimes`: fewer would be a suite that was not found."""
_GIVEN = os.environ.get("HERMES_ENV_TEST_RUNTIMES")
_MAKE = 1500
"""Seconds to make a venv: 20 on an idle machine."""


def python_of(runtime: str) -> str:
    """The interpreter of a runtime's venv, which is made when it is not there.

    Without a package index the test is skipped; it fails where HERMES_ENV_REQUIRE names `runtimes`.
    """
    if _GIVEN is not None:
        return f"{_GIVEN}/{runtime}/bin/python"
    command = ["sh", str(ROOT / "scripts/runtimes.sh"), runtime]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE, check=False)
    if done.returncode:
        problem = f"no venv of {runtime}: {done.stderr.strip()[-500:]}"
        if "runtimes" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
            pytest.fail(problem)
        pytest.skip(problem)
    return str(ROOT / ".work/runtimes" / runtime / "bin/python")
