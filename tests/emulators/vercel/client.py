"""Starts an emulator, and tells it what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.emulators._client import EmulatorClient

if TYPE_CHECKING:
    from vercel.sandbox.sync import SandboxServiceOptions, SyncSandboxClient


class Emulator(EmulatorClient):
    """A running emulator of Vercel Sandbox; see `EmulatorClient` for what can be asked of it."""

    program = os.path.dirname(os.path.abspath(__file__))

    @property
    def base_url(self) -> str:
        """What the SDK calls `base_url`."""
        return f"{self.url}/api"

    @property
    def token(self) -> str:
        """An access token that it accepts."""
        return str(self.facts["token"])

    @property
    def oidc_token(self) -> str:
        """An OIDC token that it accepts; its claims name team and project."""
        return str(self.facts["oidc_token"])

    @property
    def team_id(self) -> str:
        """The only team."""
        return str(self.facts["team_id"])

    @property
    def project_id(self) -> str:
        """The only project."""
        return str(self.facts["project_id"])

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which the SDK finds its credentials; no variable of the SDK tells it another address."""
        return {
            "VERCEL_TOKEN": self.token,
            "VERCEL_TEAM_ID": self.team_id,
            "VERCEL_PROJECT_ID": self.project_id,
            "HERMES_ENV_VERCEL_BASE_URL": self.base_url,
            # httpx honours proxies, and loopback is not exempt by itself.
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def options(self) -> SandboxServiceOptions:
        """What the SDK's synchronous client is given to speak with this emulator."""
        from vercel.sandbox import SandboxCredentials
        from vercel.sandbox.sync import SandboxServiceOptions

        credentials = SandboxCredentials(token=self.token, team_id=self.team_id, project_id=self.project_id)
        return SandboxServiceOptions(base_url=self.base_url, credentials_factory=lambda: credentials)

    def connect(self) -> SyncSandboxClient:
        """The unmodified SDK's synchronous client; the caller closes it."""
        import httpx2
        from vercel.sandbox.sync import SyncSandboxClient

        return SyncSandboxClient.create(
            options=self.options(), httpx_client_factory=lambda: httpx2.Client(trust_env=False, timeout=60)
        )
