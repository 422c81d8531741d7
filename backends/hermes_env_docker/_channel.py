"""A channel to one exec: one poll loop over its connection, no helper threads."""

from __future__ import annotations

import errno
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ._frames import FrameReader

if TYPE_CHECKING:
    from hermes_env import EndMarks

    from ._client import Hijacked

Stream = Literal["stdout", "stderr"]
Emit = Callable[[Stream, bytes], None]

_SEND = 1 << 18
"""Bytes per send."""
_DRAIN = 0.5
"""Seconds to wait for the end of the streams after the main process ended: a background child may hold them."""
_STALL, _STALLED_DRAIN = 4.5, 0.05
"""After an exec whose streams were held, engine 20.10 is 4 s late with the end of every exec of that container."""
_SETTLE = 2.0
"""Seconds for the engine to notice that a process has ended, after its streams have."""


class Drain:
    """How long the commands of one container wait for the end of their streams, once their main process has ended."""

    def __init__(self) -> None:
        self._stalled_until = 0.0

    def _stalled(self) -> bool:
        return time.monotonic() < self._stalled_until

    def seconds(self) -> float:
        """Seconds to wait at most."""
        return _STALLED_DRAIN if self._stalled() else _DRAIN

    def ran_out(self) -> tuple[Stream, ...]:
        """The streams that are held, as far as is known: a stalled engine cannot tell, and never which of the two."""
        if self._stalled():
            return ()
        self._stalled_until = time.monotonic() + _STALL
        return ("stdout", "stderr")


class ExecChannel:
    """The streams and the end of one exec."""

    def __init__(
        self,
        connection: Hijacked,
        *,
        marks: EndMarks,
        user: str | None,
        with_stdin: bool,
        drain: Drain,
        inspect: Callable[[], dict[str, Any]],
        intact: Callable[[], bool],
        explain: Callable[[str], Exception],
    ) -> None:
        self.user = user
        self.killed = False
        self.held: tuple[Stream, ...] = ()
        self._connection = connection
        self._inspect, self._explain = inspect, explain
        self._intact = intact
        self._reader = FrameReader(connection.early)
        self._marks = marks
        self._started = False
        self._stdin_open = with_stdin
        self._drain = drain
        self._drain_until: float | None = None
        self._gone = False
        self._writing = threading.Lock()
        self._pumping = threading.Lock()

    # -- stdin, from a writer thread or from `Process.write` ------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes; blocks until the engine takes them or the connection ends."""
        view = memoryview(data)
        with self._writing:
            poller = select.poll()
            if not self._gone:
                poller.register(self._connection, select.POLLOUT)
            while view:
                if not self._stdin_open or self._gone:
                    raise BrokenPipeError(errno.EPIPE, "stdin is closed")
                poller.poll()
                view = view[self._send_some(view) :]

    def _send_some(self, view: memoryview) -> int:
        try:
            return self._connection.send(view[:_SEND])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BrokenPipeError(errno.EPIPE, "the command closed its stdin, or has ended") from error

    def close_stdin(self) -> None:
        """Let the command see end-of-file."""
        with self._writing:
            if self._stdin_open:
                self._stdin_open = False
                self._connection.close_write()

    # -- output ---------------------------------------------------------------------------------------------------

    def pump(self, stdin: memoryview | None, emit: Emit, tick: Callable[[], float | None]) -> None:
        """Move both directions until the streams end, or are held by others after the command's end."""
        with self._pumping:
            if self._gone:
                raise ConnectionError("the channel was aborted")
            poller = select.poll()
            poller.register(self._connection, select.POLLIN | (select.POLLOUT if stdin else 0))
            rest = stdin
            self._deliver(emit)
            while not self._drained():
                if self._connection.pending() and not self._receive(emit):
                    return
                events = poller.poll(self._wait(tick()))
                for _, event in events:
                    if event & ~select.POLLOUT and not self._receive(emit):
                        return
                    if event & select.POLLOUT and rest is not None:
                        rest = self._feed(rest)
                        if rest is None:
                            poller.modify(self._connection, select.POLLIN)

    def read(self) -> tuple[Stream, bytes] | None:
        """Not used: the framework pumps this channel."""
        raise NotImplementedError

    def _wait(self, bound: float | None) -> float | None:
        return 0 if self._connection.pending() else _milliseconds(bound, self._drain_left())

    def _feed(self, rest: memoryview) -> memoryview | None:
        """Send a part of stdin; None when all is sent, or the command wants no more."""
        try:
            rest = rest[self._send_some(rest) :]
        except BrokenPipeError:
            return None
        if rest:
            return rest
        self.close_stdin()
        return None

    def _receive(self, emit: Emit) -> bool:
        """Take what has come; False at the end of the connection."""
        try:
            count = self._connection.receive(self._reader.free())
        except BlockingIOError:
            return True
        except ConnectionResetError:
            # So ends a connection whose stdin was not read to its end; the marks tell whether output is missing.
            count = 0
        if self._gone:
            raise ConnectionError("the channel was aborted")
        if count == 0:
            self._end(emit)
            return False
        self._reader.filled(count)
        self._deliver(emit)
        return True

    def _deliver(self, emit: Emit) -> None:
        for number, data in self._reader.frames():
            stream: Stream = "stderr" if number == 2 else "stdout"
            if number not in (1, 2) or not self._belongs_to_command(data):
                raise self._explain(data.decode("utf-8", "replace").strip())
            if own := self._marks.feed(stream, data):
                emit(stream, own)
        if self._drain_until is None and self._marks.status is not None:
            self._drain_until = time.monotonic() + self._drain.seconds()

    def _belongs_to_command(self, data: bytes) -> bool:
        """Tell the first output of a command from the engine's own words when it could not start one.

        The engine puts its complaint on stdout, with CR LF. Only such a first frame is worth a question.
        """
        if self._started or not data.endswith(b"\r\n"):
            self._started = True
            return True
        while True:
            info = self._inspect()
            if info["Pid"] or not info["Running"]:
                self._started = bool(info["Pid"])
                return self._started
            time.sleep(0.005)

    def _end(self, emit: Emit) -> None:
        if self._reader.torn:
            raise ConnectionError("the connection to the engine was cut inside a frame")
        for stream, rest in self._marks.rest():
            emit(stream, rest)

    def _drain_left(self) -> float | None:
        return None if self._drain_until is None else self._drain_until - time.monotonic()

    def _drained(self) -> bool:
        left = self._drain_left()
        if left is None or left > 0:
            return False
        self.held = self._drain.ran_out()
        return True

    # -- end ------------------------------------------------------------------------------------------------------

    def exit_status(self) -> int:
        """The exit code from the end marks; without them, only what was killed by a signal has a known end."""
        status = self._marks.status
        if status is not None:
            return status
        end = time.monotonic() + _SETTLE
        while (info := self._inspect())["Running"] and time.monotonic() < end:
            time.sleep(0.01)
        code = info["ExitCode"]
        if info["Running"] or code is None or code < 128:
            raise ConnectionError("the connection ended before the command's output did")
        if not self.killed:
            self._check_container()
        return int(code)

    def has_process(self) -> bool:
        """Whether the engine has made the command's process, or will not say."""
        try:
            return bool(self._inspect()["Pid"])
        except ConnectionError:
            return True

    def ended(self) -> bool:
        """Whether the command has ended, or its end cannot be learned."""
        try:
            return self._gone or self._marks.status is not None or not self._inspect()["Running"]
        except ConnectionError:
            return True

    def _check_container(self) -> None:
        """A container that ends takes its commands with it, a lost lease ends them; either is seen a moment later."""
        end = time.monotonic() + _SETTLE / 2
        while time.monotonic() < end:
            if not self._intact():
                raise ConnectionError("the container or the link to it ended under the command")
            time.sleep(0.05)

    def abort(self) -> None:
        """Wake whoever waits, and close the connection once nobody uses it."""
        self._gone = True
        self._connection.shut()
        if self._pumping.acquire(blocking=False):
            try:
                with self._writing:
                    self._connection.close()
            finally:
                self._pumping.release()


def _milliseconds(*bounds: float | None) -> float | None:
    """The nearest of these bounds, in seconds, as poll wants it."""
    known = [bound for bound in bounds if bound is not None]
    return max(0.0, min(known)) * 1000 + 0.5 if known else None
