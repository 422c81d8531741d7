"""Chapter cancellation, with faults on the way of a command: requests that fail, hang, land late or arrive twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hermes_env import CommandCancelled, CommandTimeout, HermesEnvError, OutcomeUnknown, StdinMode

from ._check import equal, holds
from ._lab import UNTIL_GO, Lab
from ._law import law
from ._trial import Trial, expect_error, trials

if TYPE_CHECKING:
    from ._faults import Kind


class CancellationFaultLaws:
    """What becomes of a command when the way to its environment goes wrong."""

    @law(covers=["staging: kill", "staged: kill", "dispatched: kill", "cancelled: late upload"])
    def test_killed_on_its_way(self, lab: Lab) -> None:
        """A command that is killed while a request of it is under way never runs, also when the request lands later."""
        with trials(lab) as found:
            for _, make in found.armed("stdin", "script", "launch"):
                trial = make()
                trial.start()
                trial.strike()
                trial.cancel()
                expect_error(trial.outcome(), CommandCancelled)
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
                expect_error(trial.outcome(), CommandCancelled)
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
                expect_error(trial.outcome(), CommandTimeout)
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
                    expect_error(trial.outcome(), HermesEnvError, f"{kind} of {step}")
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
                expect_error(trial.outcome(), HermesEnvError, f"a link lost during the upload of {step}")
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
                expect_error(error, HermesEnvError)
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
                expect_error(trial.outcome(), HermesEnvError, f"late {step}")
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
                expect_error(error, HermesEnvError)
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
                expect_error(trial.outcome(), (CommandCancelled, OutcomeUnknown))
                lab.sh(": >go", cwd=trial.place)
                trial.expect_runs()

    @law(covers=["dispatched: lost link", "unknown: timeout"])
    def test_a_deadline_without_a_link_changes_nothing(self, lab: Lab) -> None:
        """A deadline after the link was lost ends the command, or leaves it unknown; every wait tells the same."""
        with trials(lab) as found:
            ((_, make),) = found.armed("launch", kind="cut")
            for seconds in lab.deadlines():
                trial = make()
                end = time.monotonic() + seconds
                trial.start(timeout=seconds)
                trial.strike()
                lab.until(lambda: trial.has_started() or trial.is_over(), "the command runs, or its time is up")  # noqa: B023 - called at once
                trial.release()
                first = trial.outcome()
                expect_error(first, (CommandTimeout, OutcomeUnknown))
                # Where stdin is no pipe, the end is asked for by another request, until the deadline.
                if (
                    isinstance(first, OutcomeUnknown) or lab.env.stdin_mode is not StdinMode.PIPE
                ):  # Others ask by another request.
                    break
            time.sleep(max(0.0, end + 0.05 - time.monotonic()))
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
