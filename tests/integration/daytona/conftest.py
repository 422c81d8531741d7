"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=daytona`` and DAYTONA_API_KEY set."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.emulators.daytona.client import Emulator
from tests.integration.cloud_fixtures import Cloud, emulator, env, faulty, opened, shared  # noqa: F401 - fixtures

LIVE = os.environ.get("HERMES_ENV_LIVE") == "daytona"
LIVE_OPTIONS: dict[str, Any] = {"ttl": 2400, "auto_delete": 0}
"""A live sandbox lasts forty minutes at most, and goes when it is idle."""


def _access(running: Emulator | None) -> dict[str, Any]:
    if running is None:
        return LIVE_OPTIONS
    return {"api_key": running.key, "api_url": running.api_url, "target": "local"}


@pytest.fixture(scope="session")
def cloud() -> Cloud:
    """The service that is tested here."""
    return Cloud("daytona", Emulator, LIVE, _access)
