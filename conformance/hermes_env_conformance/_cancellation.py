"""Chapter cancellation: whatever goes wrong, and whenever, a command runs at most once and leaves nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from functools import partial

from hermes_env import CommandCancelled, CommandTimeout

from ._check import equal, holds, same_bytes
from ._lab import UNTIL_GO, Lab
from ._law import law
from ._trial import Trial, expect_error, trials


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
                expect_error(trial.outcome(), CommandCancelled)
            found.expect_never_dispatched(*ended)

    @law(covers=["new: timeout", "staging: timeout"])
    def test_timed_out_when_it_is_new(self, lab: Lab) -> None:
        """A deadline that passes before anything could start ends the command as any other does."""
        with trials(lab) as found:
            ended = []
            for seconds in (0.0001, 0.005, 0.02)[: lab.scale(2, 3, 3)]:
                ended.append(trial := found.trial())
                trial.start(timeout=seconds)
                expect_error(trial.outcome(), CommandTimeout)
            found.expect_over(*((trial, 0, 1) for trial in ended))

    @law(covers=["staging: kill"])
    def test_killed_while_its_stdin_is_produced(self, lab: Lab) -> None:
        """A kill while the caller's own iterable has the next word ends the command, which takes no more of it."""
        with trials(lab) as found:
            trial, gate, asked = found.trial(), threading.Event(), list[int]()
            trial.start(stdin=_slow(gate, asked, found.secret))
            lab.until(lambda: asked, "stdin is asked for")
            trial.cancel()
            expect_error(trial.outcome(), CommandCancelled)
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
                expect_error(trial.outcome(), CommandTimeout)
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
            expect_error(trial.outcome(), ZeroDivisionError)
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
            expect_error(error, CommandCancelled)
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
                expect_error(trial.outcome(), CommandTimeout)
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
            expect_error(trial.outcome(), ZeroDivisionError)
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
            expect_error(first, CommandCancelled)
            for again in (process.kill, process.terminate, lambda: time.sleep(max(0.0, end + 0.05 - time.monotonic()))):
                again()
                expect_error(trial.outcome(), CommandCancelled)
            trial.expect_over()


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
