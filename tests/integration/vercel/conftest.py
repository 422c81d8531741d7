"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=vercel`` and Vercel's credentials set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.vercel.client import Emulator
from tests.integration.clouds import Open, begin_live, opener

LIVE = os.environ.get("HERMES_ENV_LIVE") == "vercel"
LIVE_OPTIONS: dict[str, Any] = {"execution_time_limit": 1800, "extend": False}
"""A live sandbox lasts thirty minutes at most."""


def access(emulator: Emulator | None) -> dict[str, Any]:
    """Options that reach the emulator; live, the environment's credentials do."""
    if emulator is None:
        return {}
    return {
        "token": emulator.token,
        "team": emulator.team_id,
        "project": emulator.project_id,
        "base_url": emulator.base_url,
    }


@pytest.fixture(scope="session")
def shared() -> Iterator[Emulator | None]:
    """One emulator for all tests that need no faults and no switches; None when they run live."""
    if LIVE:
        begin_live("vercel")
        yield None
        return
    with Emulator() as running:
        yield running


@pytest.fixture
def opened(shared: Emulator | None) -> Iterator[Open]:
    """Opens sandboxes, and closes them after the test."""
    yield from opener("vercel", access(shared) or LIVE_OPTIONS)


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
    opening = opener("vercel", access(emulator))
    yield next(opening)
    emulator.heal()
    next(opening, None)
