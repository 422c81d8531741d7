"""The venvs of agent runtimes, and environments for what runs in them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine import Engine, EngineUnavailable
from tests.engine import engine as running_engine
from tests.images import PYTHON, ensure_python

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("HERMES_ENV_TEST_RUNTIMES") or ROOT / ".work/runtimes")
_REQUIRED = os.environ.get("HERMES_ENV_REQUIRE", "").split(",")
_MAKE = 1500
"""Seconds to make a venv: 20 on an idle machine."""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A Docker engine that has the image with Python."""
    try:
        with running_engine() as found:
            ensure_python(found)
            yield found
    except EngineUnavailable as error:
        if "docker" in _REQUIRED:
            pytest.fail(f"HERMES_ENV_REQUIRE=docker, and no Docker engine: {error}")
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], str]:
    """Gives the interpreter of a runtime's venv, which is made when it is not there."""

    def make(runtime: str) -> str:
        if "HERMES_ENV_TEST_RUNTIMES" not in os.environ:
            command = ["sh", str(ROOT / "scripts/runtimes.sh"), runtime]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKE, check=False)
            if done.returncode:
                problem = f"no venv of {runtime}: {done.stderr.strip()[-500:]}"
                pytest.fail(problem) if "runtimes" in _REQUIRED else pytest.skip(problem)
        return str(FOLDER / runtime / "bin/python")

    return make


@pytest.fixture(scope="session")
def variables_of(engine: Engine) -> Callable[[str], dict[str, str]]:
    """Gives the variables with which `tests.runtimes.asked` opens an environment; in the container as no root."""

    def variables(backend: str) -> dict[str, str]:
        options = {}
        if backend == "docker":
            options = {"image": PYTHON, "network": False, "ttl": 3600, "user": "agent", "workdir": "/home/agent"}
        # What a suite asks of Python are no warnings of ours, and no colours.
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON"))}
        asked = {"HERMES_ENV_TEST_BACKEND": backend, "HERMES_ENV_TEST_OPTIONS": json.dumps(options)}
        return {**clean, **engine.variables, **asked}

    return variables
