"""An emulator, and the unmodified SDK connected to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.emulators.vercel.client import Emulator

if TYPE_CHECKING:
    from vercel.sandbox.sync import SyncSandbox, SyncSandboxClient, SyncSandboxRuntimeSession


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """One emulator for a file of tests; switches and faults are set back after each test."""
    with Emulator() as running:
        yield running


@pytest.fixture(scope="module")
def client(emulator: Emulator) -> Iterator[SyncSandboxClient]:
    """The SDK's synchronous client, with explicit credentials."""
    client = emulator.connect()
    yield client
    client.close()


@pytest.fixture
def switched(emulator: Emulator) -> Iterator[Callable[..., None]]:
    """Set switches for one test."""
    before = emulator.switches
    yield emulator.switch
    emulator.switch(**before)


@pytest.fixture
def box(emulator: Emulator, client: SyncSandboxClient) -> Iterator[SyncSandbox]:
    """A sandbox; faults are forgotten with it."""
    made = client.create_sandbox(persistent=False)
    emulator.forget()
    yield made
    emulator.heal()
    if made.name in emulator.sandboxes():
        made.destroy()


@pytest.fixture
def session(box: SyncSandbox) -> SyncSandboxRuntimeSession:
    """Its session: the handle that never resumes and never sends anything again."""
    return box.session()
