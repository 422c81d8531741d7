"""Commands at a low priority, in a home directory of their own."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import CommandEnvironment, LazyOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_env import Launch


class ExampleEnvironment(CommandEnvironment):
    """Runs commands on this machine through nice(1). Their home is made for them and removed at the end."""

    # Imported when options are first parsed: listing backends stays cheap.
    Options: ClassVar[Any] = LazyOptions("hermes_env_example._options:ExampleOptions")
    install: ClassVar[str] = "apt-get install coreutils"
    # nice(1) hands its own environment on, so variables need no other way.
    carries_env: ClassVar[bool] = True
    _home: str

    @classmethod
    def _unavailable(cls) -> str | None:
        """Asked by `list_backends`."""
        return None if shutil.which("nice") else "the program nice is not installed"

    def _open(self) -> None:
        """Make what commands run in; raise `BackendUnavailable` when that fails, and leave nothing behind."""
        self._home = tempfile.mkdtemp(prefix="hermes-example-")

    def _close(self) -> None:
        """Undo it; no command runs any more."""
        shutil.rmtree(self._home, ignore_errors=True)

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        """Variables of the process: the caller's own stay where they are."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": self._home, **launch.env}

    def _argv(self, launch: Launch) -> list[str]:
        """The command line for one command. Neither stdin nor any variable is ever in it."""
        return ["nice", "-n", str(self.options.niceness), *launch.argv()]
