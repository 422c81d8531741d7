"""What a backend receives (`Launch`) and what it returns (`Channel`) for one command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, Protocol, runtime_checkable

Stream = Literal["stdout", "stderr"]
Emit = Callable[[Stream, bytes], None]
StdinLike = bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]

COMMAND_ID_VARIABLE = "HERMES_ENV_COMMAND"
"""Environment variable that marks every process of a command, so that a kill finds the whole tree."""


@dataclass(frozen=True, slots=True)
class StdinSource:
    """Bytes for stdin, to be read once.

    Attributes:
        size: Length in bytes; None when it is not known in advance.
        chunks: Iterator over non-empty chunks. It may raise what the caller's iterable raises.
    """

    size: int | None
    chunks: Iterator[bytes | memoryview] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """One command, ready to be started as ``/bin/sh -c script sh *args``.

    Attributes:
        script: POSIX sh text, ASCII unless the environment says ``carries_bytes``.
        args: Positional parameters of the script.
        env: Variables for the process environment, always with `COMMAND_ID_VARIABLE`. Never to be written into an
            argv. Empty for an environment that does not say ``carries_env``: there they travel on stdin.
        cwd: Working directory; None unless the environment says ``carries_cwd``, or when it is the default one.
        user: User to run as; None is the environment's default.
        stdin: What the framework will write to the channel. None means end-of-file at once. Informative: a channel
            gets the bytes through `Channel.write`; only staged environments read it.
        id: 32 hexadecimal digits, unique to this command.
        timeout: Seconds that the caller gives the command; None is no limit. The framework ends it itself: a backend
            may tell its service to end it some time later, in case that this client is gone by then.
    """

    script: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    user: str | None = None
    stdin: StdinSource | None = field(default=None, repr=False)
    id: str = ""
    timeout: float | None = None

    def argv(self) -> list[str]:
        """The command line that runs this launch in any POSIX userland."""
        return ["/bin/sh", "-c", self.script, "sh", *self.args]


class Channel(Protocol):
    """The running command, as a backend sees it. The framework does ordering, limits, deadlines and kill.

    `write` and `close_stdin` are called from one thread, `read` and `exit_status` from another; `abort` from any.
    """

    def write(self, data: bytes | memoryview, /) -> None:
        """Send bytes to the command's stdin; may block until they are taken.

        Raises:
            BrokenPipeError: The command closed its stdin, or ended. The framework stops writing; it is no failure.
        """

    def close_stdin(self) -> None:
        """Let the command see end-of-file. Called exactly once, also when nothing was written."""

    def read(self) -> tuple[Stream, bytes] | None:
        """Block for the next output; None when no more will come.

        A channel that learns of the main process's end while its streams are still held open by a background child
        returns None then, after at most 0.5 s without further output.

        Raises:
            ConnectionError: The link was lost and the outcome is not known.
        """

    def exit_status(self) -> int:
        """The command's exit code, 0 to 255; 128 + n for death by signal n. Called once, after `read` gave None.

        Raises:
            ConnectionError: The link was lost and the outcome is not known.
        """

    def abort(self) -> None:
        """Release everything and make blocked calls return or raise `ConnectionError`. Idempotent, any thread.

        It need not end the command: the framework kills it first. It is called for every command, also at its
        normal end.
        """


@runtime_checkable
class SupportsPump(Protocol):
    """Optional: a channel that moves all its streams on the calling thread, instead of `Channel.read`.

    The framework then needs no timer thread for it, and no writer thread for stdin that is in memory.
    """

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """Move bytes until the command has ended and no more output will come.

        Args:
            stdin: Bytes to send, then end-of-file. None: leave stdin alone, another thread writes it.
            emit: Takes output; the buffer may be reused after the call returns.
            tick: Called before each wait; returns the seconds to wait at most, None for no bound.
        """
