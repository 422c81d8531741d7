"""Exit codes of the command line, and the one line that says what went wrong."""

from __future__ import annotations

import os
import signal
import traceback
from contextlib import suppress
from types import FrameType

from hermes_env._codec import display, encode_lossless
from hermes_env._errors import BackendNotFound, BackendUnavailable, CommandTimeout, EnvironmentGone, InvalidArgument

FAILED = 1
"""The operation was tried and failed."""
USAGE = 2
"""The command line itself is wrong; nothing ran."""
UNAVAILABLE = 3
"""The backend exists and cannot be used now."""
TIMEOUT = 124
"""`exec`: the deadline passed. The code of timeout(1)."""
EXEC_FAILED = 125
"""`exec`: hermes-env itself failed, so that this is no exit code of the command. The code of ``docker run``."""
OUTPUT_CLOSED = 128 + signal.SIGPIPE
"""Whoever read our stdout has gone."""

DEBUG_VARIABLE = "HERMES_ENV_DEBUG"


class OutputClosed(Exception):
    """Whoever read our stdout or stderr has gone. No `OSError`, which the core would take for a lost link."""


class Terminated(KeyboardInterrupt):
    """A signal asks us to end; handled like Ctrl-C."""


class Signals:
    """Lets SIGTERM and SIGHUP end the running command's tree as Ctrl-C does, and remembers which of them came."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in (signal.SIGTERM, signal.SIGHUP):
            # An ignored signal stays ignored: nohup means it.
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        raise Terminated

    @property
    def exit_code(self) -> int:
        """The exit code after an interrupt: 128 and the number of the signal."""
        return 128 + (self.number or signal.SIGINT)


def say(message: str) -> None:
    """Write one line to stderr, whatever bytes or line ends the message holds; one that takes nothing is no failure."""
    line = " ".join(message.split())
    _write(f"hermes-env: {display(encode_lossless(line))}\n")


def _write(text: str) -> None:
    from ._streams import write_all

    with suppress(OSError, OutputClosed):
        write_all(2, text.encode("utf-8", "backslashreplace"))


def fail(error: BaseException, *, in_exec: bool) -> int:
    """Say what went wrong, and with what exit code to end."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        _write("".join(traceback.format_exception(error)))
    say(f"error: {_describe(error)}")
    if isinstance(error, CommandTimeout):
        return TIMEOUT
    if in_exec:
        return EXEC_FAILED
    if isinstance(error, InvalidArgument | BackendNotFound):
        return USAGE
    return UNAVAILABLE if isinstance(error, BackendUnavailable | EnvironmentGone) else FAILED


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror or error}"
    name = type(error).__name__
    if not type(error).__module__.startswith("hermes_env") and not isinstance(error, OSError):
        return f"unexpected {name}: {error} (set {DEBUG_VARIABLE}=1 to see where)"
    return str(error) or name
