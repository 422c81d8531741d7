"""Reports while commands run, and calls with a deadline."""

from __future__ import annotations

import threading

import pytest

from hermes_env import Keeper, within


class Reports:
    """Counts reports and lets a test wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self.came = threading.Condition()

    def __call__(self) -> None:
        """One report, which fails."""
        with self.came:
            self.count += 1
            self.came.notify_all()
        raise ConnectionError("nobody there")

    def wait(self, count: int) -> None:
        """Wait until there were that many."""
        with self.came:
            assert self.came.wait_for(lambda: self.count >= count, 30)


def test_a_running_command_is_reported_again_and_again() -> None:
    """While a command runs reports go on, also after one that failed; afterwards they end."""
    reports = Reports()
    keeper = Keeper(reports, lambda: 0.01)
    with keeper.busy():
        reports.wait(3)
    came = threading.Event()
    while keeper.waiting:
        came.wait(0.01)
    count = reports.count
    came.wait(0.1)
    assert reports.count == count


def test_commands_at_once_share_their_reports() -> None:
    """However many commands run, one report is to come."""
    reports = Reports()
    keeper = Keeper(reports, lambda: 3600.0)
    with keeper.busy(), keeper.busy():
        assert keeper.waiting
    keeper.stop()
    assert reports.count == 0


def test_nothing_is_reported_without_a_command_or_after_the_end() -> None:
    """An idle environment is left to its limit, and one that was let go of is not reported."""
    reports = Reports()
    keeper = Keeper(reports, lambda: 0.0)
    keeper.stop()
    with keeper.busy():
        threading.Event().wait(0.05)
    assert reports.count == 0 and not keeper.waiting


def test_a_call_in_time_gives_its_result() -> None:
    """Results and errors come through as they are."""
    assert within(30, "work", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(30, "work", lambda: 1 // 0)


def test_a_late_result_is_handed_over() -> None:
    """A call that does not return in time goes on, and what it returns at last is not lost."""
    gate, late = threading.Event(), threading.Event()
    got: list[int] = []

    def work() -> int:
        gate.wait(30)
        return 7

    def take(value: int) -> None:
        got.append(value)
        late.set()

    with pytest.raises(TimeoutError, match="making it: no answer within"):
        within(0.01, "making it", work, take)
    gate.set()
    assert late.wait(30) and got == [7]
