"""A real Docker engine, containers of the test image, and looks at them from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from hermes_env import BaseEnvironment, open_environment
from tests.engine import IMAGE, Engine, EngineUnavailable
from tests.engine import engine as running_engine

from .own_engine import OwnEngine, own_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine under test; without one the tests skip, or fail where HERMES_ENV_REQUIRE names docker."""
    try:
        with running_engine() as found:
            yield found
    except EngineUnavailable as error:
        if "docker" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
            pytest.fail(f"HERMES_ENV_REQUIRE=docker, and no Docker engine: {error}")
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture(scope="module")
def env(engine: Engine) -> Iterator[BaseEnvironment]:
    """One container for the tests of a module that leave it as it was."""
    with open_environment("docker", image=IMAGE, host=engine.host, ttl=3600) as made:
        yield made


@pytest.fixture
def fresh(engine: Engine) -> Iterator[BaseEnvironment]:
    """A container of the test's own."""
    with open_environment("docker", image=IMAGE, host=engine.host, ttl=3600) as made:
        yield made


@pytest.fixture
def foreign(engine: Engine) -> Iterator[str]:
    """Id of a container that someone else made, with the `docker` command."""
    made = engine.cli("run", "--detach", "--init", IMAGE, "sleep", "3600")
    ident = made.stdout.decode().strip()
    assert made.returncode == 0, made.stderr
    yield ident
    engine.cli("rm", "--force", ident)


@pytest.fixture
def listed(engine: Engine) -> Callable[[], set[str]]:
    """The ids of all containers, in every state, as `docker ps` sees them."""

    def look() -> set[str]:
        return set(engine.cli("ps", "--all", "--quiet", "--no-trunc").stdout.decode().split())

    return look


@pytest.fixture(scope="session")
def own(engine: Engine) -> Iterator[OwnEngine]:
    """A second engine, for what would disturb others; where the first one runs, so does it, for root."""
    if os.getuid() != 0:
        pytest.skip("only root can start an engine")
    try:
        with own_engine() as made:
            yield made
    except EngineUnavailable as error:
        pytest.skip(f"no second engine: {error}")
