"""Fixtures of every cloud backend's tests; its `conftest.py` imports them, and has one of its own, `cloud`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hermes_env import BaseEnvironment
from tests.integration.clouds import Open, opener


@dataclass(frozen=True, slots=True)
class Cloud:
    """A service, by its emulator or live."""

    backend: str
    emulator: Callable[[], contextlib.AbstractContextManager[Any]]
    live: bool
    """Tests run against the service itself, and those that need an emulator's faults are skipped."""
    access: Callable[[Any], dict[str, Any]]
    """Options that reach an emulator, or with None the service."""
    around: Callable[[Any], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """What has to hold while sandboxes are opened and used."""


@pytest.fixture(scope="session")
def shared(cloud: Cloud) -> Iterator[Any]:
    """One emulator for all tests that need no faults and no switches; None when they run live."""
    if cloud.live:
        yield None
        return
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def opened(cloud: Cloud, shared: Any) -> Iterator[Open]:
    """Opens sandboxes, and closes them after the test."""
    with cloud.around(shared):
        yield from opener(cloud.backend, cloud.access(shared))


@pytest.fixture
def env(opened: Open) -> BaseEnvironment:
    """A sandbox of its own."""
    return opened()


@pytest.fixture(scope="module")
def emulator(cloud: Cloud) -> Iterator[Any]:
    """An emulator for tests with faults and switches; live there are none."""
    if cloud.live:
        pytest.skip("needs the emulator's faults")
    with cloud.emulator() as running:
        yield running


@pytest.fixture
def faulty(cloud: Cloud, emulator: Any) -> Iterator[Open]:
    """Opens sandboxes of the emulator with faults; the faults are forgotten before they are closed."""
    with cloud.around(emulator):
        opening = opener(cloud.backend, cloud.access(emulator))
        yield next(opening)
        emulator.heal()
        next(opening, None)
