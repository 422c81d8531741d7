"""What an environment declares about itself: how stdin travels, facts, limits and powers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

KillScope = Literal["command", "environment", "none"]
Isolation = Literal["none", "container", "vm", "host"]


class StdinMode(Enum):
    """How the bytes of stdin reach a command."""

    PIPE = "pipe"
    """The backend feeds the process's own stdin."""
    PAYLOAD = "payload"
    """The backend carries the bytes through its SDK, streamed or staged as a private file."""
    HEREDOC = "heredoc"
    """The command text is the only channel. For plugins; no built-in backend uses it."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts, limits and powers of an environment; closed by default.

    *Facts* choose which conformance laws apply, *limits* are refused above (None: no limit known), *powers* raise
    `Unsupported` when they are absent.
    """

    separate_stderr: bool = False
    """Fact: stdout and stderr arrive apart."""
    exact_stdout: bool = False
    """Fact: the output channel carries every byte. Otherwise the framework carries output in private files."""
    streaming: bool = False
    """Fact: output arrives while the command runs."""
    half_close: bool = False
    """Fact: closing stdin reaches the command as end-of-file. Otherwise the framework frames stdin by length."""
    kill_scope: KillScope = "none"
    """Fact: what a kill ends: the command's tree, the whole environment, or nothing."""
    isolation: Isolation = "none"
    """Fact: what stands between the command and this machine."""
    max_script_bytes: int | None = None
    """Limit: bytes of script and arguments that the backend can carry as command text."""
    max_stdin_bytes: int | None = None
    """Limit: bytes of stdin for one command."""
    live_stdin: bool = False
    """Power: `Process.write` and `Process.close_stdin` while the command runs."""
    users: bool = False
    """Power: run as another user (``user=``)."""
    reattach: bool = False
    """Power: `attach` to an environment that another client made."""
