"""Trees of processes to kill, and a look at them that does not use our code."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from hermes_env import (
    Process,
)
from tests.processes import marked
from tests.waiting import until

TREES = {
    "plain": "sleep 300 & sleep 300 & sleep 300",
    "setsid": "setsid sleep 300 & setsid sh -c 'sleep 300 & sleep 300' & sleep 300",
    "orphan": "(setsid sh -c 'sleep 300 & sleep 300' &) ; sleep 300",
    "stopped": "sleep 300 & kill -STOP $!; sleep 300",
    "deaf": "trap '' TERM; sh -c \"trap '' TERM; sleep 300\" & sleep 300; sleep 300",
    "forking": "while :; do setsid sleep 5 & sleep 0.01; done",
}


def started(process: Process, count: int) -> None:
    """Wait until a command has at least so many processes."""
    until(lambda: len(marked(process.id)) >= count)


def run_client(program: str, *args: str) -> subprocess.Popen[bytes]:
    """A client of the library in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
