"""The laws of the contract over ssh: all on the default server, the variants' on the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from hermes_env_conformance import LAWS
from tests.integration.ssh.conftest import need
from tests.slow import ALL
from tests.sshd import Sshd

NOISE = "echo NOISE; echo NOISE >&2\n"
SERVERS: dict[str, dict[str, Any]] = {
    "noisy bash": {"shell": "/bin/bash", "rc": NOISE},
    "dash": {"shell": "/bin/dash"},
    "noisy fish": {"shell": "/usr/bin/fish", "rc": NOISE},
    "one session": {"lines": ("MaxSessions 1",)},
    "no variables accepted": {"before": ("AcceptEnv NONE",)},
}
ESSENCE = (
    "test_every_size_arrives_on_stdin",
    "test_the_end_of_output_is_exact",
    "test_variables_arrive_exactly",
    "test_every_content_is_written",
    "test_every_size_is_read",
    "test_a_status_is_true",
)
"""A few laws, for the run that everyone waits for; HERMES_ENV_SLOW=1 runs all that are marked for variants."""


def conforms(server: Sshd, *arguments: str) -> int:
    """Run the suite as a user runs it; the number of laws that held, when all did."""
    given = [part for name, value in server.options().items() for part in ("--option", f"{name}={value}")]
    argv = [sys.executable, "-m", "hermes_env_conformance", "ssh", *given, *arguments]
    done = subprocess.run(argv, capture_output=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout.decode()[-6000:] + done.stderr.decode()[-2000:]
    last = done.stdout.decode().strip().splitlines()[-1]
    passed = int(last.split()[0])
    assert last == f"{passed} passed, 0 failed, 0 gaps"
    return passed


def test_every_law_holds_on_the_default_server(server: Sshd) -> None:
    """The whole suite is green against OpenSSH as Debian ships it."""
    passed = conforms(server, "--profile", "default" if ALL else "quick", "--patience", "60")
    assert passed > len(LAWS) * 0.8


@pytest.mark.parametrize("kind", SERVERS)
def test_variants(start: Callable[..., Sshd], kind: str) -> None:
    """Laws hold for other login shells, noisy or not, with one session, and where no variable is accepted."""
    settings = SERVERS[kind]
    if "shell" in settings:
        need(os.path.basename(settings["shell"]))
    names = [name for name, law in LAWS.items() if law.variant] if ALL else ESSENCE
    chosen = [argument for name in names for argument in ("--law", name)]
    passed = conforms(start(**settings), *chosen, "--profile", "quick", "--patience", "60")
    assert passed >= len(ESSENCE)
