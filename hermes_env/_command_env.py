"""The base of backends that are a command-line tool: `kubectl exec -i`, bwrap, apptainer, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from ._base import BaseEnvironment
from ._capabilities import Capabilities
from ._kill_script import KillReport
from ._popen import PopenChannel
from ._watchdog import Watchdog

if TYPE_CHECKING:
    from ._launch import Channel, Launch


class CommandEnvironment(BaseEnvironment):
    """Runs every command as a process of this machine, with a prefix that puts it somewhere else.

    A subclass returns the command line from `_argv`, usually a prefix and `Launch.argv`. Unless it says
    ``carries_env``, variables travel on stdin: a tool that hands its own environment on may say so.
    """

    capabilities = Capabilities(
        separate_stderr=True,
        exact_stdout=True,
        streaming=True,
        half_close=True,
        kill_scope="command",
        live_stdin=True,
    )
    _runs_inline: ClassVar[bool] = True
    _watchdog: Watchdog | None = None

    def _argv(self, launch: Launch) -> list[str]:
        """The command line for one launch."""
        raise NotImplementedError

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        """Environment of the local process."""
        return {**os.environ, **launch.env}

    def _before_open(self) -> None:
        self._watchdog = Watchdog()

    def _after_close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()

    def _launch(self, launch: Launch) -> Channel:
        return PopenChannel(
            self._argv(launch),
            command_id=launch.id,
            env=self._environ(launch),
            cwd=launch.cwd,
            with_stdin=launch.stdin is not None,
            watchdog=self._watchdog,
        )

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        """Kill where the command runs, then the local tool that carries it."""
        inside = super()._kill(command_id, channel, grace)
        outside = self._kill_process(channel, 0)
        if inside is None or outside is None:
            return outside
        return KillReport(inside.killed + outside.killed, inside.confirmed and outside.confirmed)

    def _kill_process(self, channel: Channel, grace: float) -> KillReport | None:
        """Kill the process of this machine and its tree, by signals."""
        # What `_launch` gave, or a subclass' wrapper around it.
        return cast("PopenChannel", channel).kill(grace)
