"""A backend whose commands see another ``/bin/sh``: a private mount namespace with a shell bound over it.

The whole launch path runs in that shell: launcher, guards, framing, the user's own script, and the kill script.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from hermes_env import BackendOptions, CommandEnvironment, Launch

SET_UP = (
    'umask "$1"; mount --bind "$2" /bin/sh || exit 124; [ "$3" = rw ] || mount -t tmpfs -o ro none /tmp || exit 124; '
    'shift 3; exec env "$@"'
)


def available() -> bool:
    """Whether this user may make mount namespaces."""
    probe = ["unshare", "-m", "mount", "--bind", "/bin/sh", "/bin/sh"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class BoxedOptions(BackendOptions):
    """Options of the test backend."""

    sh: str
    """Program to bind over ``/bin/sh``."""
    noise: dict[str, str] | None = None
    """Variables of the service."""
    umask: str = "022"
    tmp: str = "rw"


class BoxedEnvironment(CommandEnvironment):
    """Runs ``launch.argv()`` in a namespace of its own."""

    Options = BoxedOptions
    options: BoxedOptions

    def _argv(self, launch: Launch) -> list[str]:
        options = self.options
        noise = [f"{name}={value}" for name, value in (options.noise or {}).items()]
        set_up = ["/usr/bin/bash", "-p", "-c", SET_UP, "set-up", options.umask, options.sh, options.tmp]
        return ["unshare", "-m", *set_up, *noise, *launch.argv()]

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin"}


class FramedEnvironment(BoxedEnvironment):
    """The same where closing stdin does not reach the command: the framework frames it by length."""

    capabilities = CommandEnvironment.capabilities.__class__(
        separate_stderr=True, exact_stdout=True, streaming=True, half_close=False, kill_scope="command", live_stdin=True
    )
