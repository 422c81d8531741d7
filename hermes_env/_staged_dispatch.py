"""Dispatch of one command through private files: stage, run once, find out how it ended, erase."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import _staged_script as text
from ._codec import encode_lossless
from ._command import MAX_ARGUMENT
from ._errors import (
    BackendUnavailable,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    PayloadTooLarge,
    StagingError,
    Unsupported,
)
from ._kill_script import KillReport
from ._launch import Launch
from ._pipe import refused_cwd
from ._staged_call import Call, bounded
from ._staged_reply import Report, parse_report

if TYPE_CHECKING:
    from ._command import Command
    from ._launch import Channel, Stream
    from ._result import ExecResult
    from ._staged_area import StagingArea

logger = logging.getLogger("hermes_env")

_POLL = 0.05
"""Seconds between looks at whether an upload under way was cancelled."""
_GIVE_UP = 0.5
"""Seconds that a cancelled upload gets to stop by itself before it is left behind."""
_NEVER_STARTED = (
    BackendUnavailable,
    EnvironmentGone,
    InvalidArgument,
    PayloadTooLarge,
    Unsupported,
)
"""Errors by which a backend says for certain that nothing was started."""
_LOOK_SECONDS = 10.0
_LAST_LOOK_SECONDS = 2.5
"""Seconds for the look after a kill: `Process` waits five in all."""
_LOOKS = 6
"""Looks that may fail in a row, over about ten seconds, before the outcome is called unknown."""
_REFUSALS = {
    "open": "the staged stdin was gone or unreadable",
    "unlink": "a staged file could not be removed",
    "short": "the staged stdin arrived with another length",
    "home": "the private directory was replaced",
    "full": "the private directory cannot be written (disk full?)",
    "fenced": "the dispatch did not arrive, and a late one is refused",
}


class _Cancelled(Exception):
    """Ends an upload whose command was cancelled."""


class StagedDispatcher:
    """Carries one command through the staging area."""

    def __init__(self, area: StagingArea, command: Command, limit: int | None) -> None:
        self._area = area
        self._command = command
        self._limit = limit
        self._paths: list[str] = []
        self._stdin_error: BaseException | None = None
        self._channel: StagedChannel | None = None
        self._trash: list[str] = []
        self._left = False

    # -- staging --------------------------------------------------------------------------------------------------

    def stage(self, cancelled: Callable[[], bool]) -> None:
        """Upload stdin, then the script: with the script missing nothing can run."""
        try:
            self._area.host._reserve(self._command.id, cancelled)  # noqa: SLF001 - the backend's hook
            self._stage_all(cancelled)
        except _Cancelled:
            return

    def _stage_all(self, cancelled: Callable[[], bool]) -> None:
        try:
            self._area.ready()
        except ConnectionError as error:
            raise StagingError("the environment does not answer; nothing ran") from error
        command, size = self._command, None
        if command.stdin is not None:
            size = self._upload_stdin(command.stdin.chunks, cancelled)
        if text.is_long(command, MAX_ARGUMENT):
            assert isinstance(command.program, str)
            self._upload("cmd", iter([encode_lossless(command.program)]), cancelled)
            command = replace(command, program=text.FILE_PROGRAM)
        self._upload("sh", iter([self._script(command, size)]), cancelled)

    def _upload_stdin(self, source: Iterator[bytes | memoryview], cancelled: Callable[[], bool]) -> int:
        """The bytes sent; what the caller's own iterable raises is raised as it is."""
        counter = _Counter(source, self._limit)
        try:
            self._upload("in", counter.chunks(cancelled), cancelled)
        except StagingError:
            if counter.error is None:
                raise
        if counter.error is not None:
            raise counter.error
        if not counter.complete:
            raise StagingError("the backend did not take all of stdin; nothing ran")
        return counter.total

    def _script(self, command: Command, size: int | None) -> bytes:
        self._trash, claims = self._area.take_trash()
        return text.command_script(
            command,
            self._area.home,
            self._area.encoder,
            inline=self._area.inline,
            stdin_size=size,
            trash=[*self._trash, *self._area.doubtful()],
            claims=claims,
        )

    def _upload(self, kind: str, chunks: Iterator[bytes], cancelled: Callable[[], bool]) -> None:
        if cancelled():
            raise _Cancelled
        path = self._area.path(self._command.id, kind)
        self._paths.append(path)
        call = Call(lambda: self._area.host._stage(path, chunks))  # noqa: SLF001 - the backend's hook
        while not call.wait(_POLL):
            if cancelled() and not call.wait(_GIVE_UP) and call.leave(self._erase_late):
                self._left = True
                raise _Cancelled
        self._check_upload(call, cancelled)

    def _check_upload(self, call: Call[None], cancelled: Callable[[], bool]) -> None:
        try:
            call.result()
        except HermesEnvError:
            raise
        except Exception as error:
            self._left = True  # It may land yet.
            if cancelled():
                raise _Cancelled from error
            raise StagingError("a private file could not be uploaded; nothing ran") from error

    def _erase_late(self) -> None:
        """An upload that was left behind returned: what it made is erased now."""
        self._unstage_all()

    # -- dispatch -------------------------------------------------------------------------------------------------

    def dispatch(self) -> Channel:
        """Ask the backend to run the staged script."""
        self._channel = StagedChannel(self._area, self._command)
        return self._channel

    def feed(
        self,
        channel: Channel,  # noqa: ARG002 - the protocol's arguments
        failed: Callable[[BaseException], None],  # noqa: ARG002
    ) -> memoryview | None:
        """Nothing to send: stdin is staged."""
        return None

    def write(self, channel: Channel, data: bytes | None) -> None:  # noqa: ARG002 - the protocol's
        """Not offered."""
        raise Unsupported("a staged command takes its stdin before it starts")

    def settle(self, result: ExecResult, opening: bytes) -> ExecResult:
        """Raise what the guard reported: the directory could not be entered, nothing ran."""
        refused_cwd(result, opening, self._command)
        return result

    def kill(self, channel: Channel, grace: float) -> KillReport | None:
        """End the command's tree by a second request; one that has not started never will."""
        assert self._channel is not None
        if self._channel.settled:
            return None
        self._channel.killed = True
        try:
            return self._area.host._kill(self._command.id, channel, grace)  # noqa: SLF001 - the backend's hook
        except Exception as error:  # noqa: BLE001 - whatever fails here, the kill is not confirmed
            logger.debug("kill of %s failed: %s", self._command.id, type(error).__name__)
            return KillReport(0, confirmed=False)

    # -- the end --------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Erase what is left of the command."""
        try:
            self._erase()
        finally:
            self._area.host._release(self._command.id)  # noqa: SLF001 - the backend's hook

    def _erase(self) -> None:
        channel, command_id = self._channel, self._command.id
        if channel is None or not channel.settled:
            self._area.give_back(self._trash)
        if channel is None:
            self._discard_staged()
        elif channel.settled and not channel.killed:
            self._area.ended(command_id)
        elif not self._area.erase(command_id):
            self._unstage_all()
            self._area.doubt(command_id)

    def _discard_staged(self) -> None:
        if not self._unstage_all() or self._left:
            self._area.doubt(self._command.id)

    def _unstage_all(self) -> bool:
        """Remove every file that may have been staged; False when the backend does not confirm."""
        confirmed = True
        for path in self._paths:
            try:
                bounded(lambda path=path: self._area.host._unstage(path), 5.0)  # type: ignore[misc]  # noqa: SLF001
            except Exception as error:  # noqa: BLE001 - erased again with the next command
                logger.debug("staged file not removed: %s", type(error).__name__)
                confirmed = False
        return confirmed


class _Counter:
    """Counts the caller's stdin on its way, and keeps the caller's own error apart from the backend's."""

    def __init__(self, source: Iterator[bytes | memoryview], limit: int | None) -> None:
        self._source = source
        self._limit = limit
        self.total = 0
        self.complete = False
        self.error: Exception | None = None

    def chunks(self, cancelled: Callable[[], bool]) -> Iterator[bytes]:
        """The chunks as bytes; ends by an error when the command is cancelled meanwhile."""
        try:
            for chunk in self._source:
                self._check(len(chunk), cancelled)
                yield bytes(chunk)
            self.complete = True
        except Exception as error:
            self.error = error
            raise

    def _check(self, size: int, cancelled: Callable[[], bool]) -> None:
        if cancelled():
            raise _Cancelled
        self.total += size
        if self._limit is not None and self.total > self._limit:
            problem = f"stdin is over the backend's limit of {self._limit} bytes"
            raise PayloadTooLarge(problem)


class StagedChannel:
    """A dispatched command: one request under way, and looks when its reply says nothing."""

    def __init__(self, area: StagingArea, command: Command) -> None:
        self._area = area
        self._command = command
        self._wake = threading.Event()
        self._aborted = threading.Event()
        self._status: int | None = None
        self._cause: BaseException | None = None
        self.held: tuple[Stream, ...] = ()
        self.settled = False
        self.killed = False
        self._output = self._produce()
        script = text.dispatch_text(area.home, command.id)
        launch = Launch(script, id=command.id)
        self._call: Call[str | bytes | None] = Call(
            lambda: area.host._run(script, launch),  # noqa: SLF001 - the backend's hook
            self._wake.set,
        )

    def write(self, data: bytes | memoryview) -> None:
        """Not used: stdin is staged."""

    def close_stdin(self) -> None:
        """Not used: stdin is staged."""

    def read(self) -> tuple[Stream, bytes] | None:
        """Wait for the end of the command, then give its output."""
        return next(self._output, None)

    def exit_status(self) -> int:
        """The exit code that the script reported."""
        if self._status is None:
            raise ConnectionError("the outcome is not known")
        return self._status

    def abort(self) -> None:
        """Stop waiting for the reply."""
        self._aborted.set()
        self._wake.set()

    def _produce(self) -> Iterator[tuple[Stream, bytes]]:
        self._wake.wait()
        report = self._reply() or self._look()
        yield from self._carry(report)
        self._conclude(report)

    def _reply(self) -> Report | None:
        """What the dispatched script said; None when it said nothing that ends the wait."""
        if not self._call.wait(0):
            return None
        try:
            reply = self._call.result()
        except _NEVER_STARTED:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the look finds out what happened
            self._cause = error
            return None
        report = parse_report(reply, self._command.nonce, self._area.encoder)
        return report if report is not None and report.word == "status" else None

    def _look(self) -> Report:
        """Ask what became of the command, until it is known, or cannot be.

        Raises:
            ConnectionError: It cannot be known.
        """
        failures, starting, pause = 0, 0, 0.05
        while True:
            last = self._aborted.is_set()
            report = self._look_once(_LAST_LOOK_SECONDS if last else _LOOK_SECONDS)
            if report is not None and report.word in ("status", "fenced"):
                return report
            failures = failures + 1 if report is None else 0
            starting = starting + 1 if report is not None and report.word == "starting" else 0
            lost = report is not None and report.word == "lost"
            if lost:
                self._area.lost()
            if last or lost or failures >= _LOOKS or starting >= _LOOKS:
                raise ConnectionError("the reply was lost, and so is the outcome") from self._cause
            self._aborted.wait(pause)
            pause = min(pause * (3 if failures else 1.5), 4 if failures else 1)

    def _look_once(self, seconds: float) -> Report | None:
        try:
            return self._area.look(self._command.id, seconds)
        except (HermesEnvError, ConnectionError) as error:
            self._cause = self._cause or error
            return None

    def _carry(self, report: Report) -> Iterator[tuple[Stream, bytes]]:
        """Output that came with the report, or is read back."""
        streams: tuple[tuple[Stream, str], ...] = (("stdout", "out"), ("stderr", "err"))
        for index, (stream, kind) in enumerate(streams):
            if report.output is not None:
                if report.output[index]:
                    yield stream, report.output[index]
                continue
            path = self._area.path(self._command.id, kind)
            for piece in self._area.pieces(path, report.sizes[index]):
                yield stream, piece

    def _conclude(self, report: Report) -> None:
        """Settle on an exit code, or raise why there is none."""
        if report.status is not None:
            self._status, self.held, self.settled = report.status, report.held, True
            return
        reason = report.reason or report.word
        if reason in ("home", "full"):
            self._area.lost()
        if reason == "dead" and not self.killed:
            # Something ended the script, the backend's own time limit for example: what it left is ended, too.
            self._end_orphans()
        if self.killed or reason not in _REFUSALS:
            raise ConnectionError(f"the command did not end by itself ({reason})") from self._cause
        raise StagingError(f"{_REFUSALS[reason]}; nothing ran") from self._cause

    def _end_orphans(self) -> None:
        try:
            self._area.kill(self._command.id, 0.0)
        except (HermesEnvError, ConnectionError) as error:
            self._cause = self._cause or error
