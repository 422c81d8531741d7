"""Commands in a bubble: the machine is read-only, /tmp private, and there is no network."""

import shutil
import tempfile

from hermes_env import CommandEnvironment, Launch


class Bubble(CommandEnvironment):
    """Only /tmp can be written, and goes with the environment. Processes are shared, so it claims no isolation."""

    def _open(self) -> None:
        self._tmp = tempfile.mkdtemp(prefix="bubble-")

    def _close(self) -> None:
        shutil.rmtree(self._tmp)

    def _argv(self, launch: Launch) -> list[str]:
        view = ["--ro-bind", "/", "/", "--bind", self._tmp, "/tmp", "--dev", "/dev", "--proc", "/proc"]
        return ["bwrap", *view, "--unshare-net", "--unshare-ipc", *launch.argv()]
