"""Every behaviour of the tools over every way in which files are carried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import IMAGE, EngineUnavailable
from tests.engine import engine as running_engine

from .bench import KINDS, Bench, directory, make_bench, open_kind


@pytest.fixture(scope="session")
def docker() -> Iterator[dict[str, Any]]:
    """How a container is opened; without an engine the tests skip, or fail where HERMES_ENV_REQUIRE names docker."""
    try:
        with running_engine() as engine:
            yield {"image": IMAGE, "host": engine.host, "ttl": 3600, "network": False}
    except EngineUnavailable as error:
        if "docker" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
            pytest.fail(f"HERMES_ENV_REQUIRE=docker, and no Docker engine: {error}")
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory for one test."""
    with directory() as made:
        yield made


def open_bench(kind: str, home: Path, request: pytest.FixtureRequest) -> Bench:
    """A place of one kind."""
    options: dict[str, Any] = {}
    if kind == "docker":
        options = {**request.getfixturevalue("docker"), "mounts": (f"{home}:{home}",)}
    return make_bench(kind, home, open_kind(kind, home, **options))


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, home: Path) -> Iterator[Bench]:
    """A place of every kind."""
    made = open_bench(request.param, home, request)
    with made.env:
        yield made


@pytest.fixture(params=["native", "sh"])
def near(request: pytest.FixtureRequest, home: Path) -> Iterator[Bench]:
    """A place on this machine, natively and through scripts."""
    made = open_bench(request.param, home, request)
    with made.env:
        yield made
