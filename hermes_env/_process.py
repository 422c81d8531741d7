"""A command in flight: its state, its streams, its deadline and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import _timer
from ._errors import (
    CommandCancelled,
    CommandTimeout,
    HermesEnvError,
    InvalidArgument,
    OutcomeUnknown,
    Unsupported,
)
from ._kill_script import KillReport
from ._launch import SupportsPump
from ._output import BoundedBuffer, LiveOutput
from ._result import NO_EXIT_CODE, ExecResult, State
from ._stdin import in_memory
from ._validate import check_timeout

if TYPE_CHECKING:
    from ._command import Command
    from ._dispatcher import Dispatcher
    from ._launch import Channel, Stream

_CONFIRM = 5.0
"""Seconds for a kill to be confirmed; after that the result says `kill_unconfirmed`."""
_LONGEST_WAIT = 86_400.0
"""Seconds of one wait: `poll` takes 2,147,483 at most. The deadline is looked at again after it."""
_ENDED: tuple[State, ...] = ("finished", "cancelled", "unknown")


@dataclass(frozen=True, slots=True)
class _End:
    """How the run of a command ended."""

    state: State
    code: int = NO_EXIT_CODE
    held: tuple[Stream, ...] = ()
    cause: BaseException | None = None
    failure: BaseException | None = None


class Process:
    """One command, from the call to its end. Every method may be called from any thread, any number of times.

    States: ``new → staging → staged → dispatched → finished | cancelled | unknown``.
    """

    def __init__(self, command: Command, dispatcher: Dispatcher) -> None:
        self._command = command
        self._dispatcher = dispatcher
        self._lock = threading.Lock()  # Guards transitions only, never I/O.
        self._state: State = "new"
        self._channel: Channel | None = None
        self._launched = threading.Event()
        self._fed = threading.Event()  # What goes ahead of the caller's own stdin has been sent, or never will be.
        self._unattended = False  # A kill gave up waiting for the launch: it is for the launching thread to do.
        self._done = threading.Event()
        self._started = time.monotonic()
        self._deadline = None if command.timeout is None else self._started + command.timeout
        self._cancel: str | None = None
        self._failure: BaseException | None = None
        self._result: ExecResult | None = None
        self._report: KillReport | None = None
        self._pump_thread: int | None = None
        self._inline = False
        self._ended: Callable[[Process], None] | None = None
        limit = command.output_limit
        self._buffers: dict[Stream, BoundedBuffer] = {
            "stdout": BoundedBuffer(limit),
            "stderr": BoundedBuffer(limit),
        }
        self._live: LiveOutput | None = None

    # -- what the caller uses -------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """32 hexadecimal digits; every process of the command has it in its environment."""
        return self._command.id

    @property
    def state(self) -> State:
        """Where the command is."""
        return self._state

    @property
    def _ended_by_itself(self) -> bool:
        """It has ended by itself, with whatever exit code: `wait` returns a result."""
        return self._state == "finished" and self._failure is None

    def __iter__(self) -> Iterator[tuple[Stream, bytes]]:
        """Output as it arrives, in order of arrival; ends with the command."""
        if self._live is None:
            raise Unsupported("iterate over a process that `start` returned")
        return iter(self._live)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to the command's stdin.

        Raises:
            InvalidArgument: `data` is not bytes.
            Unsupported: It was not started with ``live_stdin=True``.
            BrokenPipeError: The command closed its stdin or has ended.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgument("data", f"must be bytes, not {type(data).__name__}")
        self._live_channel(in_memory(data))

    def close_stdin(self) -> None:
        """Let the command see end-of-file."""
        self._live_channel(None)

    def wait(self, timeout: float | None = None) -> ExecResult:
        """Wait for the end.

        Args:
            timeout: Seconds to wait at most. When they run out nothing is killed.

        Raises:
            InvalidArgument: `timeout` is negative or no number.
            TimeoutError: The wait ran out; the command goes on.
            CommandTimeout, CommandCancelled, OutcomeUnknown: How it ended; ``.result`` has the output so far.
        """
        if not self._done.wait(check_timeout("timeout", timeout)):
            raise TimeoutError(f"the command still runs after {timeout} s of waiting")
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def terminate(self, grace: float = 5.0) -> None:
        """Ask the command's whole tree to end by TERM; kill what is left after `grace` seconds."""
        self._stop("cancelled", grace)

    def kill(self) -> None:
        """End the command's whole tree now. Before dispatch: it is never dispatched."""
        self._stop("cancelled", 0.0)

    # -- the run --------------------------------------------------------------------------------------------------

    def run_here(self) -> None:
        """Run to the end on the calling thread; an interrupt of that thread kills the command."""
        self._inline = True
        self._run()

    def run_in_thread(self, *, live: bool, ended: Callable[[Process], None]) -> None:
        """Run to the end on a thread of its own.

        Args:
            live: The output can be iterated.
            ended: Called at the end, before waiting callers go on.
        """
        if live:
            self._live = LiveOutput(self._command.output_limit)
            self._dispatcher.follow()
        self._ended = ended
        threading.Thread(target=self._run, name=f"hermes-env-{self.id[:8]}", daemon=True).start()

    def _run(self) -> None:
        self._pump_thread = threading.get_ident()
        alarm = None
        if self._deadline is not None and not self._inline:
            alarm = _timer.call_at(self._deadline, self._on_deadline)
        end = _End("unknown")
        try:
            end = self._carry()
        except ConnectionError as error:
            end = _End("unknown", cause=error)
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            # What could not be launched has not run.
            end = _End("cancelled" if self._channel is None else "unknown", failure=error)
        except BaseException as error:
            # An interrupt of the calling thread is a kill.
            self._interrupt("cancelled")
            end = _End("cancelled", failure=error)
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            self._finish(end)

    def _carry(self) -> _End:
        """Take the command from the call to its end."""
        if not self._advance("new", "staging"):
            return _End("cancelled")
        self._dispatcher.stage(lambda: self._cancel is not None)
        self._tick()
        if not (self._advance("staging", "staged") and self._advance("staged", "dispatched")):
            return _End("cancelled")
        channel = self._launch()
        try:
            memory = self._dispatcher.feed(channel, self._on_stdin_failure)
        finally:
            self._fed.set()
        if isinstance(channel, SupportsPump):
            channel.pump(memory, self._emit, self._tick)
        else:
            while (item := channel.read()) is not None:
                self._emit(*item)
        return _End("finished", channel.exit_status(), getattr(channel, "held", ()))

    def _launch(self) -> Channel:
        try:
            self._channel = channel = self._dispatcher.dispatch()
        finally:
            self._launched.set()
        if self._unattended:
            self._kill_tree(0.0)
        return channel

    def _emit(self, stream: Stream, data: bytes) -> None:
        self._buffers[stream].write(data)
        if self._live is not None:
            self._live.put(stream, data)
        if self._command.on_output is None:
            return
        try:
            self._command.on_output(stream, data)
        except BaseException as error:
            self._failure = self._failure or error  # A ConnectionError of the caller's is no lost link.
            self._interrupt("on_output raised")
            raise

    def _tick(self) -> float | None:
        """Enforce the deadline where the channel waits with a bound; the seconds until it."""
        if self._deadline is None or not self._inline or self._cancel is not None:
            return None
        left = self._deadline - time.monotonic()
        if left > 0:
            return min(left, _LONGEST_WAIT)
        self._interrupt("timeout")
        return None

    def _advance(self, old: State, new: State) -> bool:
        with self._lock:
            if self._cancel is not None or self._state != old:
                return False
            self._state = new
            return True

    # -- kill -----------------------------------------------------------------------------------------------------

    def _on_deadline(self) -> None:
        self._stop("timeout", 0.0)

    def _on_stdin_failure(self, error: BaseException) -> None:
        """Kill before stdin is closed: the command must not take a part of its input for all of it."""
        self._failure = error
        self._interrupt("stdin raised")

    def _interrupt(self, reason: str) -> None:
        """Kill on the thread that pumps, or that feeds the pump: it must not wait for itself."""
        with self._lock:
            self._cancel = self._cancel or reason
        self._kill_tree(0.0)

    def _stop(self, reason: str, grace: float) -> None:
        """Kill from any thread and wait until the pump has seen the end."""
        if not grace >= 0:
            raise InvalidArgument("grace", f"must be seconds >= 0, not {grace!r}")
        with self._lock:
            if self._state in _ENDED:
                return
            self._cancel = self._cancel or reason
            dispatched = self._state == "dispatched"
        if self._live is not None:
            self._live.release()
        if not dispatched:
            return
        if threading.get_ident() == self._pump_thread:
            self._kill_tree(grace)
            return
        self._unattended = not self._launched.wait(_CONFIRM)
        if self._launched.is_set():
            self._kill_tree(grace)
        self._await_end()

    def _kill_tree(self, grace: float) -> None:
        if (channel := self._channel) is None or not self._command.killable:
            return
        try:
            report = self._dispatcher.kill(channel, grace)
        except HermesEnvError:
            report = KillReport(0, confirmed=False)
        if report is not None and (self._report is None or not self._report.confirmed):
            self._report = report

    def _await_end(self) -> None:
        """Give the pump time to see the end, then take the channel away from it, then end without it."""
        if self._done.wait(_CONFIRM / 5):
            return
        if (channel := self._channel) is not None:
            channel.abort()
        if not self._done.wait(_CONFIRM):
            self._conclude(_End("unknown", cause=TimeoutError("the transport did not return after a kill")))

    # -- the end --------------------------------------------------------------------------------------------------

    def _finish(self, end: _End) -> None:
        """Let go of the channel and of what was staged; only then is the command over."""
        try:
            if self._channel is not None:
                self._channel.abort()
            self._channel = None
            self._dispatcher.discard()
        except Exception as error:  # noqa: BLE001 - `wait` raises it, unless the command itself failed
            end = replace(end, failure=end.failure or error)
        self._conclude(end)

    def _conclude(self, end: _End) -> None:
        """Settle state, result and error; the first end counts."""
        result = self._snapshot(end)
        failure = self._failure or end.failure
        if failure is None:
            failure, result = self._verdict(end, result)
        with self._lock:
            if self._state in _ENDED:
                return
            self._state = result.state
            self._result, self._failure = result, failure
        self._fed.set()
        if self._live is not None:
            self._live.close()
        if self._ended is not None:
            self._ended(self)
        self._done.set()

    def _snapshot(self, end: _End) -> ExecResult:
        out, err = self._buffers["stdout"], self._buffers["stderr"]
        report = self._report
        state = end.state
        if self._cancel is not None and (state == "finished" or (report is not None and report.confirmed)):
            state = "cancelled"
        return ExecResult(
            exit_code=end.code,
            stdout=out.getvalue(),
            stderr=err.getvalue(),
            stdout_total=out.total,
            stderr_total=err.total,
            duration=time.monotonic() - self._started,
            state=state,
            held=end.held,
            kill_unconfirmed=report is not None and not report.confirmed,
        )

    def _verdict(self, end: _End, result: ExecResult) -> tuple[BaseException | None, ExecResult]:
        what = self._command.describe()
        failure: BaseException
        if self._cancel == "timeout":
            failure = CommandTimeout(f"killed after {self._command.timeout} s: {what}", result)
        elif self._cancel is not None:
            failure = CommandCancelled(f"cancelled ({self._cancel}): {what}", result)
        elif end.state == "unknown":
            failure = OutcomeUnknown(f"the link was lost, whether this ran to its end is not known: {what}", result)
        else:
            try:
                return None, self._dispatcher.settle(result, self._buffers["stderr"].opening)
            except Exception as error:  # noqa: BLE001 - `wait` raises it
                return error, result
        failure.__cause__ = end.cause
        return failure, result

    def _live_channel(self, data: memoryview | None) -> None:
        if not self._command.live_stdin:
            raise Unsupported("start the command with live_stdin=True to write to its stdin while it runs")
        self._fed.wait()
        if self._channel is None or self._state in _ENDED:
            raise BrokenPipeError("the command has ended")
        self._dispatcher.write(self._channel, data)
