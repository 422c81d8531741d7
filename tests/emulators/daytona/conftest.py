"""An emulator, and the unmodified SDK connected to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from daytona import Daytona, DaytonaConfig, Sandbox

from tests.emulators.daytona.client import Emulator


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """One emulator for a file of tests; switches and faults are set back after each test."""
    with Emulator() as running:
        yield running


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Daytona:
    """The SDK's client, with explicit credentials."""
    return Daytona(DaytonaConfig(api_key=emulator.key, api_url=emulator.api_url, target="local"))


@pytest.fixture
def switched(emulator: Emulator) -> Iterator[Callable[..., None]]:
    """Set switches for one test."""
    before = emulator.switches
    yield emulator.switch
    emulator.switch(**before)


@pytest.fixture
def box(emulator: Emulator, client: Daytona) -> Iterator[Sandbox]:
    """A sandbox; faults are forgotten with it."""
    made = client.create(timeout=0)
    emulator.forget()
    yield made
    emulator.heal()
    if made.id in emulator.sandboxes():
        made.delete(30)
