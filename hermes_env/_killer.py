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
    from ._launch import Channel

_WITHIN = 5.0
"""Seconds for the script, on top of the grace, after which the kill is unconfirmed."""
_LONGEST_GRACE = 3600.0
_APPEARS = 3.0
"""Seconds for a service to make the process of a command that it has accepted."""


def kill_until_found(
    dispatcher: Callable[[Command], Dispatcher], command_id: str, channel: Channel, grace: float
) -> KillReport:
    """Run the kill script, again while it found nothing and the channel says that its command has not ended.

    Services answer a start before the process exists. Channels of such services have a method ``ended``.

    Raises:
        HermesEnvError: See `kill_from_inside`.
    """
    user, ended = getattr(channel, "user", None), getattr(channel, "ended", None)
    end = time.monotonic() + _APPEARS
    while True:
        report = kill_from_inside(dispatcher, command_id, grace, user=user)
        if report.killed or ended is None or ended() or time.monotonic() > end:
            return report


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
