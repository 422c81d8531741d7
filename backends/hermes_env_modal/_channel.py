"""A channel to one command: the framework's side of its pumps."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._failures import name_of
from ._pumps import Exit, Lost, Output, Pumps, Stream

if TYPE_CHECKING:
    from hermes_env import Emit, EndMarks

_DRAIN = 0.5
"""Seconds to wait for the end of the streams after the main process ended: a background child may hold them."""
_TOLD = 256 << 10
"""Bytes of output after which the loop is told that there is room."""
_REST = 60.0
"""Seconds for what must still come when a command has ended: the rest of its output, or its exit code.

The SDK itself waits for an exit code for ever when the worker is gone.
"""
_ENDING = 5.0
"""Seconds for the streams to tell of an end, when sending stdin or waiting has failed."""


class ExecChannel:
    """The streams and the end of one command."""

    def __init__(self, pumps: Pumps, marks: EndMarks, *, with_stdin: bool, intact: Callable[[], bool]) -> None:
        self.killed = False
        self.held: tuple[Stream, ...] = ()
        self._pumps = pumps
        self._marks = marks
        self._intact = intact
        self._with_stdin = with_stdin
        self._open: set[Stream] = {"stdout", "stderr"}
        self._code: int | None = None
        self._until: float | None = None
        self._late: BaseException | None = None
        self._owed = 0
        self._gone = False

    # -- stdin, from a writer thread or from `Process.write` ------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes; blocks while a slice is waiting to be sent."""
        self._pumps.stdin.write(data)

    def close_stdin(self) -> None:
        """Let the command see end-of-file."""
        if self._with_stdin:
            self._pumps.stdin.close()

    # -- output ---------------------------------------------------------------------------------------------------

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """Take output until the command has ended and its streams have, or are held by others."""
        if stdin is not None:
            self._pumps.stdin.feed(stdin)
        while not self._over():
            try:
                event = self._pumps.events.get(timeout=self._wait(tick()))
            except queue.Empty:
                continue
            if isinstance(event, Output):
                self._take(event, emit)
            elif isinstance(event, Exit):
                self._code = event.code
                self._bound()
            else:
                self._lose(event)
        for stream, data in self._marks.rest():
            emit(stream, data)

    def read(self) -> tuple[Stream, bytes] | None:
        """Not used: the framework pumps this channel."""
        raise NotImplementedError

    def _over(self) -> bool:
        """Whether nothing is waited for any more.

        Raises:
            ConnectionError: Something that must come did not.
        """
        if not self._open and (self._marks.status is not None or self._code is not None):
            return True
        if self._until is None or time.monotonic() < self._until:
            return False
        if self._complete():
            self.held = tuple(sorted(self._open, reverse=True))
            return True
        problem = "the rest of its output or its exit code did not come" if self._late is None else name_of(self._late)
        raise ConnectionError(f"the link to the command was lost: {problem}") from self._late

    def _complete(self) -> bool:
        """All output of the main process has come, or it was killed together with what writes the marks."""
        return self._marks.status is not None or (self._code is not None and self._code >= 128)

    def _wait(self, bound: float | None) -> float | None:
        left = None if self._until is None else max(0.0, self._until - time.monotonic())
        return left if bound is None else bound if left is None else min(bound, left)

    def _take(self, event: Output, emit: Emit) -> None:
        known = self._complete()
        if not event.data:
            self._open.discard(event.stream)
        elif own := self._marks.feed(event.stream, event.data):
            emit(event.stream, own)
        self._owed += len(event.data)
        if self._owed >= _TOLD:
            self._pumps.taken(self._owed)
            self._owed = 0
        if not known:
            self._bound()

    def _bound(self) -> None:
        """Bound the wait for what is still to come, once something says that the main process has ended."""
        if self._complete():
            self._until = time.monotonic() + _DRAIN
        elif self._late is None and (self._code is not None or not self._open):
            self._until = time.monotonic() + _REST

    def _lose(self, lost: Lost) -> None:
        """A call of the SDK failed for good: without effect where the end is known.

        Raises:
            ConnectionError: The outcome is not known.
        """
        if lost.what == "channel":
            raise ConnectionError("the channel was aborted")
        if self._marks.status is not None:
            self._open -= {"stdout", "stderr"} if lost.what == "output" else set()
        elif lost.what == "output":
            raise ConnectionError(f"the link to the command was lost: {name_of(lost.error)}") from lost.error
        elif self._code is None:
            # The streams tell the end, too: they end, or fail, when the worker is gone.
            self._late = self._late or lost.error
            ending = time.monotonic() + _ENDING
            self._until = ending if self._until is None else min(self._until, ending)

    # -- end ------------------------------------------------------------------------------------------------------

    def exit_status(self) -> int:
        """The exit code from the end marks; without them, only what was killed by a signal has a known end."""
        if self._marks.status is not None:
            return self._marks.status
        code = self._code
        if code is None or code < 128:
            raise ConnectionError("the command ended before its output did, or at the time limit of the service")
        if not self.killed and not self._intact():
            raise ConnectionError("the sandbox ended under the command")
        return code

    def ended(self) -> bool:
        """Whether the command has ended, or its end cannot be learned."""
        return self._gone or self._pumps.exited or self._marks.status is not None

    def abort(self) -> None:
        """Wake whoever waits, and end what moves on the loop."""
        if not self._gone:
            self._gone = True
            self._pumps.stop()
