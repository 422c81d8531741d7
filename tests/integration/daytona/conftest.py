"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=daytona`` and DAYTONA_API_KEY set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open, begin_live, opener

LIVE = os.environ.get("HERMES_ENV_LIVE") == "daytona"
LIVE_OPTIONS: dict[str, Any] = {"ttl": 2400, "auto_delete": 0}
"""A live sandbox lasts forty minutes at most, and goes when it is idle."""


@pytest.fixture(scope="session")
def shared() -> Iterator[Emulator | None]:
    """One emulator for all tests that need no faults and no switches; None when they run live."""
    if LIVE:
        begin_live("daytona")
        yield None
        return
    with Emulator() as running:
        yield running


@pytest.fixture
def opened(shared: Emulator | None) -> Iterator[Open]:
    """Opens sandboxes, and closes them after the test."""
    yield from opener("daytona", _access(shared))


def _access(emulator: Emulator | None) -> dict[str, Any]:
    if emulator is None:
        return LIVE_OPTIONS
    return {"api_key": emulator.key, "api_url": emulator.api_url, "target": "local"}


@pytest.fixture
def env(opened: Open) -> BaseEnvironment:
    """A sandbox of its own."""
    return opened()


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """An emulator for tests with faults and switches; live there are none."""
    if LIVE:
        pytest.skip("needs the emulator's faults")
    with Emulator() as running:
        yield running


@pytest.fixture
def faulty(emulator: Emulator) -> Iterator[Open]:
    """Opens sandboxes of the emulator with faults; the faults are forgotten before they are closed."""
    opening = opener("daytona", _access(emulator))
    yield next(opening)
    emulator.heal()
    next(opening, None)
