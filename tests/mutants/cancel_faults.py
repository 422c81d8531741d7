"""Faults in what becomes of a command that ends early, or whose way goes wrong."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hermes_env import (
    CommandCancelled,
    CommandTimeout,
    ExecResult,
    HermesEnvError,
    OutcomeUnknown,
    StagingError,
)
from tests.backends.streams import StreamEnvironment
from tests.backends.uploads import UploadEnvironment

from ._broken import Broken, BrokenProcess, BrokenStart, mutant

if TYPE_CHECKING:
    from hermes_env import Launch

_HOLDS = "test_exit_codes_come_back"
_RESULT = ExecResult(
    exit_code=0, stdout=b"", stderr=b"", stdout_total=0, stderr_total=0, duration=0.0, state="cancelled"
)


class _OnlySaysKilled(BrokenProcess):
    killed = False

    def kill(self) -> None:
        self.killed = True

    def wait(self, timeout: float | None = None) -> ExecResult:
        if self.killed:
            raise CommandCancelled("killed", _RESULT)
        return super().wait(timeout)


@mutant(
    "a kill that only tells the caller",
    "test_killed_when_it_is_new",
    "test_killed_while_its_stdin_is_produced",
    "test_killed_while_it_runs",
)
class OnlySaysKilled(BrokenStart):
    process = _OnlySaysKilled


class _OnlySaysTimeout(BrokenProcess):
    limit: float | None = None

    def wait(self, timeout: float | None = None) -> ExecResult:
        if self.limit is None:
            return super().wait(timeout)
        try:
            return super().wait(self.limit)
        except CommandTimeout:
            raise
        except TimeoutError:
            raise CommandTimeout("timeout", _RESULT) from None


def _start_without_timeout(env: Any, start: Any, cmd: Any, settings: dict[str, Any]) -> Any:
    limit = settings.pop("timeout", None)
    process = _OnlySaysTimeout(start(cmd, **settings))
    process.limit = limit
    return process


@mutant(
    "a deadline that only tells the caller",
    "test_timed_out_when_it_is_new",
    "test_timed_out_while_its_stdin_is_produced",
    "test_timed_out_while_it_runs",
)
class OnlySaysTimeout(BrokenStart):
    def start(self, cmd: Any, **settings: Any) -> Any:
        return _start_without_timeout(self, super().start, cmd, settings)


@mutant("an error of the caller's stdin taken for its end", "test_an_error_of_the_callers_stdin_is_no_end")
class StdinErrorIsEnd(BrokenStart):
    def start(self, cmd: Any, **settings: Any) -> Any:
        stdin = settings.get("stdin")
        if stdin is not None and not isinstance(stdin, bytes):
            settings["stdin"] = _swallowing(stdin)
        return super().start(cmd, **settings)


def _swallowing(chunks: Any) -> Iterator[bytes]:
    try:
        yield from chunks
    except ArithmeticError:
        return


@mutant("an error of a callback kept quiet", "test_an_error_of_the_callers_callback_ends_it")
class CallbackErrorQuiet(BrokenStart):
    def start(self, cmd: Any, **settings: Any) -> Any:
        settings.pop("on_output", None)
        return super().start(cmd, **settings)


class _KilledIsAResult(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except CommandCancelled as error:
            return error.result


@mutant("a killed command told as an ordinary result", "test_a_kill_races_with_the_end")
class KilledIsAResult(BrokenStart):
    process = _KilledIsAResult


class _CancelledOnce(BrokenProcess):
    told = False

    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except CommandCancelled as error:
            if self.told:
                return error.result
            self.told = True
            raise


@mutant("a cancellation told only once", "test_a_cancelled_command_stays_cancelled")
class CancelledOnce(BrokenStart):
    process = _CancelledOnce


class _LateDeadline(BrokenProcess):
    begun = 0.0
    limit: float | None = None

    def wait(self, timeout: float | None = None) -> ExecResult:
        result = super().wait(timeout)
        if self.limit is not None and time.monotonic() - self.begun > self.limit:
            raise CommandTimeout("late", result)
        return result


@mutant("a deadline that counts on after the end", "test_what_comes_after_the_end_changes_nothing")
class DeadlineCountsOn(BrokenStart):
    def start(self, cmd: Any, **settings: Any) -> Any:
        process = _LateDeadline(super().start(cmd, **settings))
        process.begun, process.limit = time.monotonic(), settings.get("timeout")
        return process


class StagedStart(UploadEnvironment):
    """A staged environment whose processes are handed out broken."""

    process: type[BrokenProcess] = BrokenProcess

    def start(self, cmd: Any, **settings: Any) -> Any:
        """A process in disguise."""
        return self.process(super().start(cmd, **settings))


@mutant("a kill before dispatch that only tells the caller", "test_killed_on_its_way", holds=_HOLDS)
class StagedOnlySaysKilled(StagedStart):
    process = _OnlySaysKilled


@mutant("a deadline before dispatch that only tells the caller", "test_timed_out_on_its_way", holds=_HOLDS)
class StagedOnlySaysTimeout(UploadEnvironment):
    def start(self, cmd: Any, **settings: Any) -> Any:
        return _start_without_timeout(self, super().start, cmd, settings)


class _ErrorIs255(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except (OutcomeUnknown, CommandCancelled, CommandTimeout):
            raise
        except HermesEnvError:
            return ExecResult(
                exit_code=255, stdout=b"", stderr=b"", stdout_total=0, stderr_total=0, duration=0.0, state="finished"
            )


@mutant(
    "a failure of the provider told as exit code 255",
    "test_a_failed_upload_runs_nothing",
    "test_a_refused_dispatch_is_an_error",
    holds=_HOLDS,
)
class ProviderErrorIs255(StagedStart):
    process = _ErrorIs255


class _Again(BrokenProcess):
    again: Any = None

    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except OutcomeUnknown:
            return self.again().wait(timeout)  # type: ignore[no-any-return]


@mutant(
    "a command run again when its outcome is unknown",
    "test_a_lost_reply_is_not_sent_again",
    "test_a_lost_link_is_told",
    holds=_HOLDS,
)
class RunsUnknownAgain(StreamEnvironment):
    def start(self, cmd: Any, **settings: Any) -> Any:
        first = _Again(super().start(cmd, **settings))
        settings["stdin"] = b"again"
        start = super().start
        first.again = lambda: start(cmd, **settings)
        return first

    def _launch(self, launch: Launch) -> Any:
        channel = super()._launch(launch)
        time.sleep(0.1)  # So that it has begun when its reply is lost.
        return channel


class _NothingRan(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except OutcomeUnknown as error:
            raise StagingError("nothing ran") from error


@mutant('an unknown outcome told as "nothing ran"', "test_a_late_dispatch_does_not_run", holds=_HOLDS)
class UnknownIsNothing(StreamEnvironment):
    def start(self, cmd: Any, **settings: Any) -> Any:
        return _NothingRan(super().start(cmd, **settings))

    def _launch(self, launch: Launch) -> Any:
        channel = super()._launch(launch)
        time.sleep(0.1)
        return channel


class _TellsTheCause(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except CommandCancelled as error:
            if error.__cause__ is not None:
                raise StagingError("the provider failed") from error
            raise


@mutant("a failure of the provider told in the place of a kill", "test_an_error_after_a_kill_is_no_news", holds=_HOLDS)
class TellsTheCause(BrokenStart):
    process = _TellsTheCause


@mutant("an upload whose link was lost taken for done", "test_a_link_lost_during_an_upload_runs_nothing", holds=_HOLDS)
class TrustsLostUploads(UploadEnvironment):
    def start(self, cmd: Any, **settings: Any) -> Any:
        if self._stage.__name__ != "trusting":
            stage = self._stage  # As it is now, with the law's faults around it.

            def trusting(path: str, chunks: Iterator[bytes]) -> None:
                with contextlib.suppress(ConnectionError):
                    stage(path, chunks)

            self._stage = trusting  # type: ignore[method-assign]
        return super().start(cmd, **settings)


class _UnknownOnce(BrokenProcess):
    told = False

    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return super().wait(timeout)
        except OutcomeUnknown:
            if self.told:
                raise CommandTimeout("timeout", _RESULT) from None
            self.told = True
            raise


@mutant("an unknown outcome told as a timeout later", "test_a_deadline_without_a_link_changes_nothing", holds=_HOLDS)
class UnknownOnce(BrokenStart):
    process = _UnknownOnce


class _AsksAgain(BrokenProcess):
    ask: Any = None

    def wait(self, timeout: float | None = None) -> ExecResult:
        result = super().wait(timeout)
        self.ask()
        return result


@mutant("a result that is asked for again at every wait", "test_what_has_ended_asks_nobody", holds=_HOLDS)
class AsksAgain(Broken):
    def start(self, cmd: Any, **settings: Any) -> Any:
        process = _AsksAgain(super().start(cmd, **settings))
        process.ask = lambda: self.exec("true")
        return process


@mutant("a late upload left where it landed", "test_a_late_upload_is_erased", holds=_HOLDS)
class LeavesLateUploads(UploadEnvironment):
    def _after_open(self) -> None:
        super()._after_open()
        self._area.doubt = lambda command_id: None  # type: ignore[method-assign]


@mutant("a request without a fence", "test_a_request_that_arrives_twice_runs_once", holds=_HOLDS)
class RunsDoubled(UploadEnvironment):
    """Puts back, before each request, the staged files that the first one had."""

    def _after_open(self) -> None:
        super()._after_open()
        self.kept = f"{self.options.root}/kept"

    def _run(self, script: str, launch: Launch) -> str:
        if launch.id:
            self._put_back(launch.id)
        return super()._run(script, launch)

    def _put_back(self, command_id: str) -> None:
        home, kept = self._area.home, f"{self.kept}-{command_id}"
        if os.path.isdir(kept):
            for name in os.listdir(home):
                if name.startswith(command_id) and os.path.isdir(f"{home}/{name}"):
                    shutil.rmtree(f"{home}/{name}")
            shutil.copytree(kept, home, dirs_exist_ok=True)
        else:
            os.mkdir(kept, 0o700)
            for name in os.listdir(home):
                if name.startswith(command_id) and os.path.isfile(f"{home}/{name}"):
                    shutil.copy2(f"{home}/{name}", kept)


class _KillHangs(BrokenProcess):
    def kill(self) -> None:
        time.sleep(0.3)
        if self.inner.state == "unknown":
            threading.Event().wait(60)
        self.inner.kill()


@mutant("a kill that waits for a link that is lost", "test_a_kill_without_a_link_returns", holds=_HOLDS)
class KillHangs(StreamEnvironment):
    def start(self, cmd: Any, **settings: Any) -> Any:
        return _KillHangs(super().start(cmd, **settings))
