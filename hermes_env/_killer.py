"""Ends one command by a second one that runs the kill script beside it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ._command import Command
from ._kill_script import KILL_SCRIPT, KillReport, parse_kill_report
from ._process import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._dispatcher import Dispatcher

_WITHIN = 5.0
"""Seconds for the script, on top of the grace, after which the kill is unconfirmed."""
_LONGEST_GRACE = 3600.0
_AGAIN = 0.01
"""Seconds between two looks for a command that is still being started."""


def kill_until_found(
    kill: Callable[[], KillReport | None],
    ended: Callable[[], bool],
    exists: Callable[[], bool] = lambda: True,
    *,
    within: float,
) -> KillReport | None:
    """Kill again while nothing was found and the command has not ended: services answer a start too early.

    Args:
        kill: Kills once.
        ended: Whether the command has ended.
        exists: Whether the service tells of a process of the command.
        within: Seconds for a process that exists to be found by its environment.
    """
    settled: float | None = None
    while True:
        report = kill()
        if report is None or report.killed or ended():
            return report
        if settled is None and exists():
            settled = time.monotonic() + within
        if settled is not None and time.monotonic() > settled:
            return report
        time.sleep(_AGAIN)


def kill_from_inside(
    dispatcher: Callable[[Command], Dispatcher], command_id: str, grace: float, *, user: str | None = None
) -> KillReport:
    """Run the kill script in the environment; it works while that closes, and nothing kills it in turn.

    Args:
        dispatcher: Makes the way to the environment for one command.
        command_id: The command whose tree is to end.
        grace: Seconds between TERM and KILL.
        user: The command's own user: even root reads another user's environment only with CAP_SYS_PTRACE.

    Raises:
        HermesEnvError: The script could not run, or its end is not known.
    """
    tenths = str(int(min(grace, _LONGEST_GRACE) * 10))
    command = Command(
        ("/bin/sh", "-c", KILL_SCRIPT, "sh", command_id, tenths),
        user=user,
        timeout=_WITHIN + grace,
        output_limit=1 << 16,
        killable=False,
    )
    process = Process(command, dispatcher(command))
    process.run_in_thread(live=False, ended=lambda _: None)
    return parse_kill_report(process.wait(2 * _WITHIN + grace).stdout)
