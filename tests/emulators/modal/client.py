"""Starts an emulator, connects the SDK to it, and tells it what to do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.emulators._client import EmulatorClient

if TYPE_CHECKING:
    import modal


class Emulator(EmulatorClient):
    """A running emulator of Modal; see `EmulatorClient` for what can be asked of it.

    Endpoints in faults, logs and counts are the names of RPCs, such as ``TaskExecStdinWrite``.
    """

    program = os.path.dirname(os.path.abspath(__file__))

    @property
    def token_id(self) -> str:
        """The only token that it accepts."""
        return str(self.facts["token_id"])

    @property
    def token_secret(self) -> str:
        """The token's secret."""
        return str(self.facts["token_secret"])

    @property
    def isolates(self) -> bool:
        """Whether sandboxes have a root of their own here; their files are this machine's otherwise."""
        return bool(self.facts["isolates"])

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which the SDK finds it; they must be set before ``import modal``, which reads the profile."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": self.token_id,
            "MODAL_TOKEN_SECRET": self.token_secret,
            # A developer's own profile must not be read.
            "MODAL_CONFIG_PATH": os.path.join(self.root, "no-profile.toml"),
            # Proxies are honoured for loopback too.
            "MODAL_DISABLE_API_PROXY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def connect(self) -> modal.Client:
        """A client of the SDK for this emulator; the caller closes it.

        The SDK reads the address when a client is made, so it is set for that moment only.
        """
        import modal

        before = os.environ.get("MODAL_SERVER_URL")
        os.environ["MODAL_SERVER_URL"] = self.url
        try:
            return modal.Client.from_credentials(self.token_id, self.token_secret)
        finally:
            if before is None:
                del os.environ["MODAL_SERVER_URL"]
            else:
                os.environ["MODAL_SERVER_URL"] = before

    def vanish(self, sandbox: str, state: str = "terminated") -> None:
        """The provider takes something away without being asked.

        Args:
            sandbox: Whose.
            state: How the sandbox ends: ``terminated``, ``timeout``, ``idle_timeout``, ``internal_failure``, or
                ``forgotten``: the control plane does not know it any more either. Or ``worker``: its worker is gone,
                with everything on it, and the control plane has not noticed.
        """
        super().vanish(sandbox, state)

    def revoke(self) -> None:
        """Tokens that workers were given are worth nothing from now on, however long they were to live."""
        self._ask("POST", "revoke")

    def round_trips(self, sandbox: str = "") -> int:
        """Calls since the last `forget`; a stream is one."""
        return sum(self.counts(sandbox).values())
