"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=modal`` and a token."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.modal.client import Emulator
from tests.integration.clouds import Open, begin_live, opener

LIVE = os.environ.get("HERMES_ENV_LIVE") == "modal"
LIVE_OPTIONS: dict[str, Any] = {"app": "hermes-env-tests", "ttl": 2400, "idle_timeout": 300}
"""A live sandbox lasts forty minutes at most, and goes when it is idle."""


@contextlib.contextmanager
def at(emulator: Emulator | None) -> Iterator[None]:
    """The SDK's clients that are made meanwhile are for this emulator; None leaves everything as it is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({} if emulator is None else emulator.environ).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def shared() -> Iterator[Emulator | None]:
    """One emulator for all tests that need no faults and no switches; None when they run live."""
    if LIVE:
        begin_live("modal")
        yield None
        return
    with Emulator() as running:
        yield running


@pytest.fixture
def opened(shared: Emulator | None) -> Iterator[Open]:
    """Opens sandboxes, and closes them after the test."""
    with at(shared):
        yield from opener("modal", LIVE_OPTIONS if shared is None else {})


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
    with at(emulator):
        opening = opener("modal", {})
        yield next(opening)
        emulator.heal()
        next(opening, None)
