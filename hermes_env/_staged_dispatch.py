"""Dispatch of one command through private files: stage, run once, find out how it ended, erase."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from . import _staged_command as text
from ._codec import encode_lossless
from ._command import MAX_ARGUMENT
from ._errors import (
    HermesEnvError,
    PayloadTooLarge,
    StagingError,
    Unsupported,
)
from ._kill_script import KillReport
from ._pipe import refused_cwd
from ._staged_call import Call, bounded
from ._staged_channel import StagedChannel

if TYPE_CHECKING:
    from ._command import Command
    from ._launch import Channel, StdinSource
    from ._result import ExecResult
    from ._staged_area import StagingArea

logger = logging.getLogger("hermes_env")

_POLL = 0.05
"""Seconds between looks at whether an upload under way was cancelled."""
_GIVE_UP = 0.5
"""Seconds that a cancelled upload gets to stop by itself before it is left behind."""


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
        self._kill_under_way = False
        self._followed = command.on_output is not None

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
        files: list[tuple[str, bytes]] = []
        if command.stdin is not None:
            if (held := self._held_stdin()) is None:
                size = self._upload_stdin(command.stdin, cancelled)
            else:
                size = len(held)
                files.append(("in", held))
        if text.is_long(command, MAX_ARGUMENT):
            assert isinstance(command.program, str)
            files.append(("cmd", encode_lossless(command.program)))
            command = replace(command, program=text.FILE_PROGRAM)
        files.append(("sh", self._script(command, size)))
        self._upload_many(files, cancelled)

    def _held_stdin(self) -> bytes | None:
        """Stdin that is in memory and small enough to go with the script."""
        memory = self._command.memory
        if memory is None or len(memory) > self._area.host.batch_bytes:
            return None
        whole = memory.obj
        return whole if isinstance(whole, bytes) and len(whole) == len(memory) else bytes(memory)

    def _upload_stdin(self, source: StdinSource, cancelled: Callable[[], bool]) -> int:
        """The bytes sent; what the caller's own iterable raises is raised as it is."""
        counter = _Counter(source.chunks, self._limit)
        try:
            self._upload("in", counter.chunks(cancelled), cancelled, source.size)
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
            sums=self._area.host.fetches,
        )

    def _upload(
        self, kind: str, chunks: Iterator[bytes], cancelled: Callable[[], bool], size: int | None = None
    ) -> None:
        (path,) = self._begin([kind], cancelled)
        host = self._area.host
        if not size:  # Pseudo files say zero.
            self._follow(Call(lambda: host._stage(path, chunks)), cancelled)  # noqa: SLF001 - the backend's hook
        else:
            self._follow(Call(lambda: host._stage_sized(path, chunks, size)), cancelled)  # noqa: SLF001

    def _upload_many(self, files: list[tuple[str, bytes]], cancelled: Callable[[], bool]) -> None:
        if len(files) == 1:
            self._upload(files[0][0], iter([files[0][1]]), cancelled)
            return
        paths = self._begin([kind for kind, _ in files], cancelled)
        batch = [(path, content) for path, (_, content) in zip(paths, files, strict=True)]
        self._follow(Call(lambda: self._area.host._stage_many(batch)), cancelled)  # noqa: SLF001 - the backend's hook

    def _begin(self, kinds: list[str], cancelled: Callable[[], bool]) -> list[str]:
        """Paths of files that an upload may make from now on."""
        if cancelled():
            raise _Cancelled
        paths = [self._area.path(self._command.id, kind) for kind in kinds]
        self._paths += paths
        return paths

    def _follow(self, call: Call[None], cancelled: Callable[[], bool]) -> None:
        while not call.wait(_POLL):
            if cancelled() and not call.wait(_GIVE_UP) and call.leave(self._erase_late):
                self._left = True
                raise _Cancelled
        self._check_upload(call, cancelled)

    def _check_upload(self, call: Call[None], cancelled: Callable[[], bool]) -> None:
        try:
            call.result()
        except Exception as error:
            told = isinstance(error, HermesEnvError)
            self._left = self._left or not told  # It may land yet.
            if cancelled():
                raise _Cancelled from error
            if told:
                raise
            raise StagingError("a private file could not be uploaded; nothing ran") from error

    def _erase_late(self) -> None:
        """An upload that was left behind returned: what it made is erased now."""
        self._unstage_all()

    # -- dispatch -------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Ask for output while the command runs, from time to time."""
        self._followed = True

    def dispatch(self) -> Channel:
        """Ask the backend to run the staged script."""
        self._channel = StagedChannel(self._area, self._command, follow=self._followed)
        return self._channel

    def feed(
        self,
        channel: Channel,  # noqa: ARG002 - the protocol's arguments
        failed: Callable[[BaseException], None],  # noqa: ARG002
    ) -> memoryview | None:
        """Nothing to send: stdin is staged."""
        return None

    def write(self, channel: Channel, data: bytes | memoryview | None) -> None:  # noqa: ARG002 - the protocol's
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
        report: KillReport | None = KillReport(0, confirmed=False)
        try:
            report = self._area.host._kill(self._command.id, channel, grace)  # noqa: SLF001 - the backend's hook
        except Exception as error:  # noqa: BLE001 - whatever fails here, the kill is not confirmed
            logger.debug("kill of %s failed: %s", self._command.id, type(error).__name__)
        self._kill_under_way = report is not None and not report.confirmed
        return report

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
        elif self._kill_under_way:
            # A kill script that comes late leaves its mark.
            self._area.doubt(command_id)

    def _discard_staged(self) -> None:
        if not self._unstage_all() or self._left:
            self._area.doubt(self._command.id)

    def _unstage_all(self) -> bool:
        """Remove every file that may have been staged; False when the backend does not confirm."""
        confirmed = True
        for path in self._paths:
            try:
                bounded(partial(self._area.host._unstage, path), 5.0)  # noqa: SLF001 - see dispatch
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
                if chunk:
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
