"""Starts an emulator, and tells it what to do."""

from __future__ import annotations

import os

from tests.emulators._client import EmulatorClient


class Emulator(EmulatorClient):
    """A running emulator of Daytona; see `EmulatorClient` for what can be asked of it."""

    program = os.path.dirname(os.path.abspath(__file__))

    @property
    def key(self) -> str:
        """The only API key that it accepts."""
        return str(self.facts["key"])

    @property
    def api_url(self) -> str:
        """What the SDK calls `api_url`."""
        return f"{self.url}/api"

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which the SDK finds it."""
        return {
            "DAYTONA_API_KEY": self.key,
            "DAYTONA_API_URL": self.api_url,
            "DAYTONA_TARGET": "local",
            # httpx honours proxies for file transfers, and loopback is not exempt by itself.
            "NO_PROXY": "127.0.0.1,localhost",
        }
