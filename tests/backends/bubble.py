"""Commands in a bubble: the machine read-only, /tmp private, no network."""

import shutil
import tempfile
from dataclasses import replace

from hermes_env import CommandEnvironment, Launch


class Bubble(CommandEnvironment):
    """Everything of this machine can be read; only /tmp can be written, and goes with the environment."""

    capabilities = replace(CommandEnvironment.capabilities, isolation="container")

    def _open(self) -> None:
        self._tmp = tempfile.mkdtemp(prefix="bubble-")

    def _close(self) -> None:
        shutil.rmtree(self._tmp)

    def _argv(self, launch: Launch) -> list[str]:
        view = ["--ro-bind", "/", "/", "--bind", self._tmp, "/tmp", "--dev", "/dev", "--proc", "/proc"]
        return ["bwrap", *view, "--unshare-user-try", "--unshare-net", "--unshare-ipc", *launch.argv()]
