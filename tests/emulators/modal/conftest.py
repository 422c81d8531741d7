"""An emulator, and the unmodified SDK connected to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import modal
import pytest

from tests.emulators.modal.client import Emulator


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """One emulator for a file of tests; switches and faults are set back after each test."""
    with Emulator() as running:
        yield running


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Iterator[modal.Client]:
    """The SDK's client, with explicit credentials."""
    client = emulator.connect()
    yield client
    client.close()


@pytest.fixture(scope="module")
def app(client: modal.Client) -> modal.App:
    """An app, without which the SDK makes no sandbox."""
    return modal.App.lookup("tests", create_if_missing=True, client=client)


@pytest.fixture
def switched(emulator: Emulator) -> Iterator[Callable[..., None]]:
    """Set switches for one test."""
    before = emulator.switches
    yield emulator.switch
    emulator.switch(**before)


@pytest.fixture
def private(emulator: Emulator) -> None:
    """The test needs sandboxes with a root of their own."""
    if not emulator.isolates:
        pytest.skip("this kernel or user makes no private roots")


@pytest.fixture
def box(emulator: Emulator, client: modal.Client, app: modal.App) -> Iterator[modal.Sandbox]:
    """A sandbox; faults are forgotten with it."""
    made = modal.Sandbox.create("sleep", "infinity", app=app, client=client, timeout=3600)
    emulator.forget()
    yield made
    emulator.heal()
    if made.object_id in emulator.sandboxes():
        made.terminate()
    made.detach()
