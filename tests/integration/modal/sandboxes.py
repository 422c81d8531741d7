"""What several modules of these tests use."""

from __future__ import annotations

from tests.emulators.modal.client import Emulator
from tests.slow import slow

EVERY_BYTE = bytes(range(256))
SLOW = slow("the SDK tries for 10 s")


def running(emulator: Emulator) -> set[str]:
    """Sandboxes that run."""
    return {name for name, box in emulator.sandboxes().items() if box["state"] == "running"}
