"""Chapter cancellation: whatever goes wrong, and whenever, a command runs at most once and leaves nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from hermes_env import CommandCancelled, CommandTimeout, HermesEnvError, OutcomeUnknown

from ._check import equal, holds, same_bytes
from ._lab import UNTIL_GO, Lab
from ._law import law
from ._trial import Trial, trials

if TYPE_CHECKING:
    from ._faults import Kind


class CancellationLaws:
    """Every state of a command, and all that can end it early."""

    @law(covers=["new: kill"])
    def test_killed_when_it_is_new(self, lab: Lab) -> None:
        """A command that is killed right after it was started never goes on, and leaves nothing."""
        with trials(lab) as found:
            ended = []
            for delay in (0.0, 0.002, 0.01)[: lab.scale(2, 3, 3)]:
                ended.append(trial := found.trial())
                trial.start()
                time.sleep(delay)
                trial.cancel()
                _expect(trial.outcome(), CommandCancelled)
            found.expect_never_dispatched(*ended)

    @law(covers=["new: timeout", "staging: timeout"])
    def test_timed_out_when_it_is_new(self, lab: Lab) -> None:
        """A deadline that passes before anything could start ends the command as any other does."""
        with trials(lab) as found:
            ended = []
            for seconds in (0.0001, 0.005, 0.02)[: lab.scale(2, 3, 3)]:
                ended.append(trial := found.trial())
                trial.start(timeout=seconds)
                _expect(trial.outcome(), CommandTimeout)
            found.expect_over(*((trial, 0, 1) for trial in ended))

    @law(covers=["staging: kill"])
    def test_killed_while_its_stdin_is_produced(self, lab: Lab) -> None:
        """A kill while the caller's own iterable has the next word ends the command, which takes no more of it."""
        with trials(lab) as found:
            trial, gate, asked = found.trial(), threading.Event(), list[int]()
            trial.start(stdin=_slow(gate, asked, found.secret))
            lab.until(lambda: asked, "stdin is asked for")
            trial.cancel()
            _expect(trial.outcome(), CommandCancelled)
            gate.set()
            trial.expect_never_dispatched()
            holds(len(asked) <= 2, f"stdin was asked for {len(asked)} times, most of them after the kill")

    @law(covers=["staging: timeout"])
    def test_timed_out_while_its_stdin_is_produced(self, lab: Lab) -> None:
        """A deadline that passes while the caller's own iterable has the next word ends the command in time."""
        with trials(lab) as found:
            trial, gate, asked = found.trial(), threading.Event(), list[int]()
            with lab.soon("the error"):
                process = trial.start(stdin=_slow(gate, asked, found.secret), timeout=lab.moment)
                lab.until(lambda: asked or process.state == "cancelled", "stdin is asked for")
                trial.state = process.state
                _expect(trial.outcome(), CommandTimeout)
            gate.set()
            trial.expect_over()

    @law(covers=["staging: the caller's stdin raises"])
    def test_an_error_of_the_callers_stdin_is_no_end(self, lab: Lab) -> None:
        """A caller's iterable that raises ends the command with that error; it never takes a part for the whole."""

        def broken() -> Iterator[bytes]:
            yield b"part"
            raise ZeroDivisionError

        with trials(lab) as found:
            trial = found.trial()
            trial.start(":", stdin=broken())
            _expect(trial.outcome(), ZeroDivisionError)
            trial.expect_over()

    @law("kill_scope=command", covers=["dispatched: kill"])
    def test_killed_while_it_runs(self, lab: Lab) -> None:
        """A kill ends a running command and what it started, and nothing else."""
        with trials(lab) as found:
            trial = found.trial()
            trial.start(f"({UNTIL_GO}; : >on) & {UNTIL_GO}")
            trial.until_started()
            trial.cancel()
            error = trial.outcome()
            _expect(error, CommandCancelled)
            assert isinstance(error, CommandCancelled)
            equal("whether the kill is in doubt", False, error.result.kill_unconfirmed)
            trial.expect_over(least=1)

    @law("kill_scope=command", covers=["dispatched: timeout"])
    def test_timed_out_while_it_runs(self, lab: Lab) -> None:
        """A deadline ends a running command and what it started, and nothing else."""
        with trials(lab) as found:
            for seconds in lab.deadlines():
                trial = found.trial()
                trial.start(f"({UNTIL_GO}; : >on) & {UNTIL_GO}", timeout=seconds)
                _expect(trial.outcome(), CommandTimeout)
                if trial.has_started():
                    break
            trial.expect_over(least=1)

    @law("streaming", "kill_scope=command", covers=["dispatched: the caller's callback raises"])
    def test_an_error_of_the_callers_callback_ends_it(self, lab: Lab) -> None:
        """What `on_output` raises is raised, and the command is over."""

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        with trials(lab) as found:
            trial = found.trial()
            trial.start(f"echo x; {UNTIL_GO}", on_output=fail)
            _expect(trial.outcome(), ZeroDivisionError)
            trial.expect_over(least=1)

    @law(covers=["dispatched: kill", "finished: kill"])
    def test_a_kill_races_with_the_end(self, lab: Lab) -> None:
        """A kill at the very end gives either the whole result or a cancellation, never something between."""
        with trials(lab) as found:
            ended, races = [], []
            for delay in (0.05, 0.0, 0.08, 0.02, 0.11)[: lab.scale(3, 5, 5)]:
                ended.append(trial := found.trial())
                races.append(partial(_race, trial, delay))
            lab.together(races)
            found.expect_over(*((trial, 1, 1) for trial in ended))

    @law(covers=["finished: kill", "finished: timeout"])
    def test_what_comes_after_the_end_changes_nothing(self, lab: Lab) -> None:
        """A deadline that passes, and a kill that comes, after the end leave the result as it was."""
        with trials(lab) as found:
            for seconds in lab.deadlines():
                trial = found.trial()
                process = trial.start("printf out; exit 4", timeout=seconds)
                end = time.monotonic() + seconds
                with contextlib.suppress(CommandTimeout):  # It was too slow for this one.
                    process.wait(lab.patience)
                    break
            time.sleep(max(0.0, end + 0.05 - time.monotonic()))
            process.kill()
            process.terminate()
            again = process.wait(lab.patience)
            equal("exit code, stdout, state", (4, b"out", "finished"), (again.exit_code, again.stdout, again.state))
            trial.expect_runs(least=1)

    @law(covers=["cancelled: kill", "cancelled: timeout"])
    def test_a_cancelled_command_stays_cancelled(self, lab: Lab) -> None:
        """Every wait raises the cancellation; another kill, or a deadline that passes then, changes nothing."""
        with trials(lab) as found:
            for seconds in lab.deadlines():
                trial = found.trial()
                process = trial.start(timeout=seconds)
                end = time.monotonic() + seconds
                process.kill()
                if not isinstance(first := trial.outcome(), CommandTimeout):  # That was too slow for this one.
                    break
            _expect(first, CommandCancelled)
            for again in (process.kill, process.terminate, lambda: time.sleep(max(0.0, end + 0.05 - time.monotonic()))):
                again()
                _expect(trial.outcome(), CommandCancelled)
            trial.expect_over()

    # -- with faults on the way -----------------------------------------------------------------------------------

    @law(covers=["staging: kill", "staged: kill", "dispatched: kill", "cancelled: late upload"])
    def test_killed_on_its_way(self, lab: Lab) -> None:
        """A command that is killed while a request of it is under way never runs, also when the request lands later."""
        with trials(lab) as found:
            for _, make in found.armed("stdin", "script", "launch"):
                trial = make()
                trial.start()
                trial.strike()
                trial.cancel()
                _expect(trial.outcome(), CommandCancelled)
                trial.landed()
                trial.expect_never_dispatched()

    @law(covers=["cancelled: SDK error", "cancelled: lost link"])
    def test_an_error_after_a_kill_is_no_news(self, lab: Lab) -> None:
        """A command whose request fails after it was killed is told as cancelled, and has not run."""
        with trials(lab) as found:
            for _, make in found.armed("stdin", "script", "launch", kind="stall"):
                trial = make()
                trial.start()
                trial.strike()
                trial.cancel()
                _expect(trial.outcome(), CommandCancelled)
                trial.expect_over(most=0)

    @law(covers=["staging: timeout", "staged: timeout", "dispatched: timeout"])
    def test_timed_out_on_its_way(self, lab: Lab) -> None:
        """A command whose deadline passes while a request of it is under way never runs on."""
        with trials(lab) as found:
            for step, make in found.armed("stdin", "script", "launch"):
                trial = make()
                process = trial.start(timeout=lab.moment)
                trial.strike()
                trial.state = process.state
                if step == "launch":
                    time.sleep(lab.moment)
                    trial.release()
                _expect(trial.outcome(), CommandTimeout)
                trial.release()
                trial.expect_never_dispatched()

    @law(covers=["staging: SDK error", "staged: SDK error"])
    def test_a_failed_upload_runs_nothing(self, lab: Lab) -> None:
        """An upload that fails, before or after it took effect, is an error, and the command never runs."""
        with trials(lab) as found:
            kinds: tuple[Kind, ...] = ("refuse", "fail")
            for kind in kinds:
                for step, make in found.armed("stdin", "script", kind=kind):
                    trial = make()
                    trial.start(":")
                    _expect(trial.outcome(), HermesEnvError, f"{kind} of {step}")
                    trial.expect_over(most=0)

    @law(covers=["staging: lost link", "staged: lost link"])
    def test_a_link_lost_during_an_upload_runs_nothing(self, lab: Lab) -> None:
        """When the link is lost while an upload is under way it is an error, nothing runs, and nothing stays."""
        with trials(lab) as found:
            for step, make in found.armed("stdin", "script", kind="cut"):
                trial = make()
                trial.start(":")
                trial.strike()
                trial.release()
                _expect(trial.outcome(), HermesEnvError, f"a link lost during the upload of {step}")
                trial.landed()
                trial.expect_over(most=0)

    @law(covers=["dispatched: SDK error"])
    def test_a_refused_dispatch_is_an_error(self, lab: Lab) -> None:
        """A request that the provider refuses for certain is an error of the environment, and nothing ran."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="refuse"):
                trial = make()
                trial.start(":")
                error = trial.outcome()
                _expect(error, HermesEnvError)
                holds(not isinstance(error, OutcomeUnknown), "the outcome is called unknown although nothing ran")
                trial.expect_over(most=0)

    @law(covers=["dispatched: SDK error"])
    def test_a_lost_reply_is_not_sent_again(self, lab: Lab) -> None:
        """A command whose reply was lost is never run again, and what is told of it is true."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="fail"):
                trial = make()
                trial.start("exit 7")
                _expect_truth(trial, 7)

    @law(covers=["staging: late upload", "staged: late upload", "cancelled: late upload"])
    def test_a_late_upload_is_erased(self, lab: Lab) -> None:
        """An upload that lands after its command was given up is erased, and nothing runs."""
        with trials(lab) as found:
            for step, make in found.armed("stdin", "script", kind="late"):
                trial = make()
                trial.start(":")
                _expect(trial.outcome(), HermesEnvError, f"late {step}")
                trial.landed()
                trial.expect_over(most=0)

    @law(covers=["dispatched: late dispatch"])
    def test_a_late_dispatch_does_not_run(self, lab: Lab) -> None:
        """A request that lands after the caller was told that nothing ran does not run."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="late"):
                trial = make()
                trial.start(":")
                error = trial.outcome()
                _expect(error, HermesEnvError)
                trial.landed()
                time.sleep(lab.moment / 3)
                trial.expect_runs(most=1 if isinstance(error, OutcomeUnknown) else 0)

    @law(covers=["dispatched: request sent twice"])
    def test_a_request_that_arrives_twice_runs_once(self, lab: Lab) -> None:
        """When the way doubles the request that starts a command, the command runs once."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="twice"):
                trial = make()
                trial.start("exit 7")
                _expect_truth(trial, 7)
                equal("runs", 1, trial.runs())

    @law(covers=["dispatched: lost link"])
    def test_a_lost_link_is_told(self, lab: Lab) -> None:
        """When the link is lost while a command runs it is not run again, and what is told of it is true."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="cut"):
                trial = make()
                trial.start(f"{UNTIL_GO}; exit 7")
                trial.strike()
                trial.until_started()
                trial.release()
                lab.sh("sleep 0.05; : >go", cwd=trial.place)
                _expect_truth(trial, 7)

    @law(covers=["dispatched: lost link", "unknown: kill"])
    def test_a_kill_without_a_link_returns(self, lab: Lab) -> None:
        """A kill after the link was lost returns in time, and the environment can be used."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="cut"):
                trial = make()
                trial.start()
                trial.strike()
                trial.until_started()
                trial.release()
                with lab.soon("the kill"):
                    trial.cancel()
                _expect(trial.outcome(), (CommandCancelled, OutcomeUnknown))
                lab.sh(": >go", cwd=trial.place)
                trial.expect_runs()

    @law(covers=["dispatched: lost link", "unknown: timeout"])
    def test_a_deadline_without_a_link_changes_nothing(self, lab: Lab) -> None:
        """A deadline after the link was lost ends the command, or leaves it unknown; every wait tells the same."""
        with trials(lab) as found:
            for _, make in found.armed("launch", kind="cut"):
                trial = make()
                trial.start(timeout=3 * lab.moment)
                trial.strike()
                trial.release()
                first = trial.outcome()
                _expect(first, (CommandTimeout, OutcomeUnknown))
                time.sleep(3 * lab.moment if isinstance(first, OutcomeUnknown) else 0.0)
                equal("what the next wait tells", type(first), type(trial.outcome()))
                lab.sh(": >go", cwd=trial.place)
                trial.expect_runs()

    @law(covers=["finished: SDK error", "finished: lost link"])
    def test_what_has_ended_asks_nobody(self, lab: Lab) -> None:
        """A result that is there is told again without any request, though every request would fail."""
        with trials(lab) as found:
            trial = found.trial()
            process = trial.start("printf out; exit 4")
            process.wait(lab.patience)
            with found.all_fail():
                process.kill()
                again = process.wait(lab.patience)
            equal("exit code, stdout, state", (4, b"out", "finished"), (again.exit_code, again.stdout, again.state))
            trial.expect_runs(least=1)


def _race(trial: Trial, delay: float) -> None:
    """Kill a command about when it ends; what is told of it is one of the two."""
    process = trial.start("sleep 0.05; printf whole; exit 0")
    trial.until_started()
    time.sleep(delay)
    process.kill()
    try:
        result = process.wait(trial.lab.patience)
    except CommandCancelled:
        return
    equal("exit code and state of a result", (0, "finished"), (result.exit_code, result.state))
    same_bytes("stdout of a result", b"whole", result.stdout)


def _slow(gate: threading.Event, asked: list[int], secret: str) -> Iterator[bytes]:
    """Stdin whose next word comes when the gate opens."""
    for count in range(4):
        asked.append(count)
        yield secret.encode() * 40
        gate.wait(60)


def _expect(
    error: BaseException | None, kinds: type[BaseException] | tuple[type[BaseException], ...], what: str = "it"
) -> None:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    names = " or ".join(kind.__name__ for kind in wanted)
    came = "a result" if error is None else f"{type(error).__name__}: {error}"
    holds(isinstance(error, kinds), f"{what} must end by {names}, not by {came}")


def _expect_truth(trial: Trial, code: int) -> None:
    """Whatever is told of the command is true, and it was not run again."""
    assert trial.process is not None
    try:
        result = trial.process.wait(trial.lab.patience)
    except OutcomeUnknown:
        trial.expect_runs()
    except HermesEnvError:
        trial.expect_runs(most=0)
    else:
        equal("exit code", code, result.exit_code)
        trial.expect_runs(least=1)
