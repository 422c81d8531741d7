"""What the state machine of a command asks of a transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kill_script import KillReport
    from ._launch import Channel
    from ._result import ExecResult


class Dispatcher(Protocol):
    """How one command reaches an environment; each stdin mode has its own."""

    def stage(self, cancelled: Callable[[], bool]) -> None:
        """Carry what must be there before the command starts; stop early when it is cancelled meanwhile.

        Raises:
            StagingError: Nothing has run.
        """

    def follow(self) -> None:
        """Somebody reads output while the command runs; called before `dispatch`."""

    def dispatch(self) -> Channel:
        """Start the command."""

    def feed(self, channel: Channel, failed: Callable[[BaseException], None]) -> memoryview | None:
        """Begin to send stdin.

        Args:
            channel: Where to.
            failed: Called when the caller's own stdin raises; the command must not see its end as a normal one.

        Returns:
            Bytes for the pump to send, or None when a thread sends them or there are none.
        """

    def write(self, channel: Channel, data: bytes | memoryview | None) -> None:
        """Send live stdin; None is end-of-file."""

    def settle(self, result: ExecResult, opening: bytes) -> ExecResult:
        """Turn the channel's raw result into the command's, or raise what it means.

        Args:
            result: What the channel gave.
            opening: The first 4 KiB of stderr, whatever the output limit.
        """

    def kill(self, channel: Channel, grace: float) -> KillReport | None:
        """End the command's tree; None when it has ended already."""

    def discard(self) -> None:
        """Erase what was staged and join helper threads, however the command ended."""
