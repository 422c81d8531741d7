"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=modal`` and a token."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.modal.client import Emulator
from tests.integration.cloud_fixtures import Cloud, emulator, env, faulty, opened, shared  # noqa: F401 - fixtures

LIVE = os.environ.get("HERMES_ENV_LIVE") == "modal"
LIVE_OPTIONS: dict[str, Any] = {"app": "hermes-env-tests", "ttl": 2400, "idle_timeout": 300}
"""A live sandbox lasts forty minutes at most, and goes when it is idle."""


@contextlib.contextmanager
def at(running: Emulator | None) -> Iterator[None]:
    """The SDK's clients that are made meanwhile are for this emulator; None leaves everything as it is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({} if running is None else running.environ).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def cloud() -> Cloud:
    """The service that is tested here."""
    return Cloud("modal", Emulator, LIVE, lambda running: LIVE_OPTIONS if running is None else {}, around=at)
