"""What the emulator tells of its sandboxes."""

from __future__ import annotations

import os

import pytest

from tests.emulators.modal.client import Emulator

# -- creation and end ---------------------------------------------------------------------------------------------

EVERY_BYTE = bytes(range(256))
SLOW = pytest.mark.skipif(
    os.environ.get("HERMES_ENV_SLOW") != "1", reason="the SDK tries for 10 s: set HERMES_ENV_SLOW=1 to run it"
)


def running(emulator: Emulator) -> set[str]:
    """Sandboxes that run."""
    return {name for name, box in emulator.sandboxes().items() if box["state"] == "running"}
