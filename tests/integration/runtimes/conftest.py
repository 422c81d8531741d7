"""Environments for what runs in the venvs of agent runtimes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

import pytest

from tests.engine import Engine, EngineUnavailable
from tests.engine import engine as running_engine
from tests.images import PYTHON, ensure_python


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A Docker engine that has the image with Python."""
    try:
        with running_engine() as found:
            ensure_python(found)
            yield found
    except EngineUnavailable as error:
        if "docker" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
            pytest.fail(f"HERMES_ENV_REQUIRE=docker, and no Docker engine: {error}")
        pytest.skip(f"no Docker engine: {error}")


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
