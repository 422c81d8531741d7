"""The channel of a staged command: one request under way, and looks when its reply says nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import _staged_script as text
from ._errors import (
    BackendUnavailable,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    PayloadTooLarge,
    StagingError,
    Unsupported,
)
from ._launch import Launch
from ._staged_call import Call
from ._staged_reply import Report, parse_report

if TYPE_CHECKING:
    from ._command import Command
    from ._launch import Stream
    from ._staged_area import StagingArea

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
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_FOLLOW_AFTER = 0.5
"""Seconds before output of a running command is asked for, when somebody reads it."""
_FOLLOW_SLOWEST = 5.0
"""Seconds between two questions when nothing new comes."""


class StagedChannel:
    """A dispatched command: one request under way, and looks when its reply says nothing."""

    def __init__(self, area: StagingArea, command: Command, *, follow: bool) -> None:
        self._area = area
        self._command = command
        self._wake = threading.Event()
        self._aborted = threading.Event()
        self._status: int | None = None
        self._cause: BaseException | None = None
        self._follow = follow
        self._sent = [0, 0]
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
        yield from self._news()
        report = self._reply() or self._look()
        yield from self._carry(report)
        self._conclude(report)

    def _news(self) -> Iterator[tuple[Stream, bytes]]:
        """What the command writes while it runs, as far as somebody reads it; ends with the wait for the reply."""
        pause = _FOLLOW_AFTER
        while not self._wake.wait(pause if self._follow else None):
            fresh = self._area.news(self._command.id, (self._sent[0], self._sent[1]))
            for index, data in enumerate(fresh):
                self._sent[index] += len(data)
                if data:
                    yield _STREAMS[index], data
            pause = _FOLLOW_AFTER if any(fresh) else min(pause * 1.5, _FOLLOW_SLOWEST)

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
        except EnvironmentGone as error:
            raise ConnectionError("the environment is gone, and so is the outcome") from error
        except (HermesEnvError, ConnectionError) as error:
            self._cause = self._cause or error
            return None

    def _carry(self, report: Report) -> Iterator[tuple[Stream, bytes]]:
        """Output that came with the report, or is read back."""
        for index, kind in enumerate(("out", "err")):
            for data in self._rest(report, index, kind):
                yield _STREAMS[index], data

    def _rest(self, report: Report, index: int, kind: str) -> Iterator[bytes]:
        """What was not yet given of one stream."""
        sent, size = self._sent[index], report.sizes[index]
        if report.output is not None:
            yield from filter(None, [report.output[index][sent:]])
            return
        path = self._area.path(self._command.id, kind)
        if report.sums is not None and (sums := report.sums[index]):
            yield from _after(self._area.fetched(path, size, sums), sent)
        else:
            yield from _after(self._area.pieces(path, size, sent), sent % text.PIECE)

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


def _after(chunks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """All but the first `skip` bytes."""
    for chunk in chunks:
        if len(chunk) > skip:
            yield chunk[skip:]
        skip = max(0, skip - len(chunk))
