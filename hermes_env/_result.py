"""What a command gave back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ._codec import decode_lossless, display

if TYPE_CHECKING:
    from ._launch import Stream

State = Literal["new", "staging", "staged", "dispatched", "finished", "cancelled", "unknown"]

NO_EXIT_CODE = -1
"""`ExecResult.exit_code` of a command that never ran or whose end is not known."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Exit code, output and totals of one command."""

    exit_code: int
    """0 to 255; 128 + n for death by signal n; -1 when the command never ran or its end is not known."""
    stdout: bytes = field(repr=False)
    """What the command wrote there, byte for byte."""
    stderr: bytes = field(repr=False)
    """The same for standard error; empty with ``merge_stderr``."""
    stdout_total: int
    """Bytes the command wrote, also those over the output limit."""
    stderr_total: int
    """The same for standard error."""
    duration: float
    """Seconds from the call to the end, staging included."""
    state: State
    """Where the command was at that moment: ``finished`` after an ordinary end."""
    held: tuple[Stream, ...] = ()
    """Streams that a background child still held open when the command ended; what it writes later is not read."""
    kill_unconfirmed: bool = False
    """A kill was asked for and processes may be left: unreadable, unkillable or not found in time."""

    @property
    def ok(self) -> bool:
        """True when the command finished with exit code 0."""
        return self.state == "finished" and self.exit_code == 0

    @property
    def truncated(self) -> bool:
        """True when output went over the limit: the first and the last half of the limit were kept."""
        return self.stdout_total > len(self.stdout) or self.stderr_total > len(self.stderr)

    @property
    def text(self) -> str:
        """stdout as text without loss: UTF-8 with surrogate escapes."""
        return decode_lossless(self.stdout)

    @property
    def stderr_text(self) -> str:
        """stderr as text without loss: UTF-8 with surrogate escapes."""
        return decode_lossless(self.stderr)

    @property
    def display(self) -> str:
        r"""stdout as clean UTF-8 for people; undecodable bytes are shown as ``\xNN``."""
        return display(self.stdout)
