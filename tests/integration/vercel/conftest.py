"""Sandboxes on the emulator, or live ones with ``HERMES_ENV_LIVE=vercel`` and Vercel's credentials set."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.emulators.vercel.client import Emulator
from tests.integration.cloud_fixtures import Cloud, emulator, env, faulty, opened, shared  # noqa: F401 - fixtures

LIVE = os.environ.get("HERMES_ENV_LIVE") == "vercel"
LIVE_OPTIONS: dict[str, Any] = {"execution_time_limit": 1800, "extend": False}
"""A live sandbox lasts thirty minutes at most."""


def access(running: Emulator | None) -> dict[str, Any]:
    """Options that reach the emulator; live, the environment's credentials do."""
    if running is None:
        return {}
    return {
        "token": running.token,
        "team": running.team_id,
        "project": running.project_id,
        "base_url": running.base_url,
    }


@pytest.fixture(scope="session")
def cloud() -> Cloud:
    """The service that is tested here."""
    return Cloud("vercel", Emulator, LIVE, lambda running: access(running) or LIVE_OPTIONS)
