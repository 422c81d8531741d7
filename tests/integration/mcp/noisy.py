"""A backend whose SDK prints: what goes to stdout would break the protocol."""

from __future__ import annotations

import os
import subprocess

from hermes_env import Channel, Launch
from hermes_env_local import LocalEnvironment


class NoisyEnvironment(LocalEnvironment):
    """Prints from Python, from a descriptor and from a child, when it opens and with every command."""

    def _open(self) -> None:
        self._print()
        super()._open()

    def _launch(self, launch: Launch) -> Channel:
        self._print()
        return super()._launch(launch)

    def _print(self) -> None:
        print("NOISE of print", flush=True)
        os.write(1, b"NOISE of a descriptor\n")
        subprocess.run(["echo", "NOISE of a child"], check=True)
