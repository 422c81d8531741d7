"""Kills that meet a command whose launch has not returned yet, though the command runs already."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, Process
from hermes_env_local import LocalEnvironment
from tests.waiting import until

if TYPE_CHECKING:
    from hermes_env import Channel, Launch


class SlowLaunch(LocalEnvironment):
    """Starts the command, and tells so only when it is let go: a loaded machine does the same."""

    def __init__(self, folder: Path) -> None:
        super().__init__(cwd=str(folder))
        self.go_on = threading.Event()

    def _launch(self, launch: Launch) -> Channel:
        channel = super()._launch(launch)
        assert self.go_on.wait(60)
        return channel


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowLaunch]:
    """An environment whose launches wait for `go_on`."""
    with SlowLaunch(tmp_path) as env:
        yield env
        env.go_on.set()


def in_background(process: Process, grace: float | None) -> threading.Thread:
    """Kill, or terminate with a grace, from another thread."""
    call = process.kill if grace is None else lambda: process.terminate(grace)
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_terminate_keeps_its_grace(slow: SlowLaunch, tmp_path: Path) -> None:
    """A command that runs before its launch has returned still gets TERM first, and the time to clean up."""
    process = slow.start("trap 'sleep 0.2; echo bye >bye; exit 0' TERM; : >up; while :; do sleep 0.02; done")
    until((tmp_path / "up").exists)
    stopper = in_background(process, 60.0)
    while process._cancel is None:
        time.sleep(0.005)
    slow.go_on.set()
    stopper.join(60)
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert (tmp_path / "bye").read_text() == "bye\n"


def test_a_kill_that_gave_up_waiting_is_carried_out(slow: SlowLaunch, tmp_path: Path) -> None:
    """When the launch returns after the kill has stopped waiting for it, the tree is killed all the same."""
    process = slow.start("echo $$ >pid.part; mv pid.part pid; while :; do sleep 0.02; done")
    until((tmp_path / "pid").exists)
    process.kill()
    slow.go_on.set()
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline, "the command still runs"
        time.sleep(0.02)
