"""Every law of the contract, with faults at the RPCs of the service in the chapter on cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from hermes_env import BaseEnvironment, open_environment
from hermes_env_conformance import ConformanceSuite
from hermes_env_conformance._faults import Faults
from tests.emulators.modal._switches import SDK_VERSION
from tests.emulators.modal.client import Emulator
from tests.integration.modal.conftest import LIVE, LIVE_OPTIONS, at
from tests.integration.modal.worker_faults import WorkerFaults
from tests.slow import ALL


@pytest.fixture(scope="module", autouse=True)
def _service(shared: Emulator | None) -> Iterator[None]:
    TestConformance.emulator = shared
    with at(shared):
        yield


class TestConformance(ConformanceSuite):
    """All laws."""

    backend = "modal"
    profile = "default" if ALL else "quick"
    against = None if LIVE else f"emulator of SDK {SDK_VERSION}"
    patience = 60.0
    emulator: ClassVar[Emulator | None] = None

    def open_environment(self, **settings: object) -> BaseEnvironment:
        """A sandbox of the emulator, or a live one."""
        return open_environment(self.backend, **{**(LIVE_OPTIONS if LIVE else {}), **settings})

    def faults(self, env: BaseEnvironment) -> Faults:
        """Starts of commands go wrong at the worker, between the SDK and the service."""
        around_hooks = super().faults(env)
        return around_hooks if self.emulator is None else WorkerFaults(self.emulator, env, around_hooks)
