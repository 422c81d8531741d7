"""Commands that are cancelled, or whose client dies, at every moment: nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from hermes_env import (
    CommandCancelled,
    CommandTimeout,
)
from tests.emulators.modal.client import Emulator
from tests.integration.clouds import Open, at_once, ident
from tests.integration.modal.sandboxes import running
from tests.waiting import until


def test_cancelled_while_stdin_is_stuck(faulty: Open, emulator: Emulator) -> None:
    """A command that reads nothing of a lot is killed at once, and whoever writes is let go."""
    env = faulty()
    process = env.start(": >up; sleep 600", stdin=iter([b"x" * (5 << 20)] * 8))
    until(lambda: env.exec("[ -e up ]").ok)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "hermes-env-stdin"])


def test_cancelled_while_the_start_is_under_way(faulty: Open, emulator: Emulator) -> None:
    """A start that arrives after the kill is followed by another kill, and nothing stays."""
    env = faulty()
    emulator.fail("TaskExecStart", "hold_before")
    process = env.start("sleep 600", stdin=b"x")
    emulator.wait_held("TaskExecStart")
    threading.Timer(0.3, emulator.release).start()
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert env.exec("pgrep -f 'sleep 60[0]' || echo none").text == "none\n"


def test_the_service_ends_the_command_of_a_dead_client(emulator: Emulator) -> None:
    """A command with a deadline whose client was killed is ended by the service, some time later."""
    program = (
        "import os, time, hermes_env_modal._environment as e\ne._SPARE = 1\n"
        "from hermes_env import open_environment\nenv = open_environment('modal')\n"
        "process = env.start('sleep 600', timeout=2)\n"
        "while not env.exec('pgrep -f [s]leep.600').ok: pass\n"
        "print(env.ref, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **emulator.environ}, stdout=subprocess.PIPE, check=False
    )
    left = child.stdout.decode().strip().partition("://")[2]
    assert left in running(emulator)
    until(lambda: not any("sleep 600" in _command(pid) for pid in emulator.sandboxes()[left]["pids"]))
    emulator.vanish(left, "terminated")


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""


def test_many_cancellations_leave_nothing(faulty: Open, emulator: Emulator) -> None:
    """Commands cancelled at any moment leave no process."""
    env = faulty()

    def one(delay: float) -> None:
        process = env.start("sleep 600", stdin=b"secret" * 5000)
        threading.Event().wait(delay)
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(60)

    at_once(one, [index * 0.01 for index in range(12)])
    until(lambda: not any("sleep 600" in _command(pid) for pid in emulator.sandboxes()[ident(env)]["pids"]))


def test_a_deadline_while_the_start_hangs(faulty: Open, emulator: Emulator) -> None:
    """The deadline bounds a start that nobody answers, too."""
    env = faulty()
    emulator.fail("TaskExecStart", "hold_before")
    with pytest.raises(CommandTimeout):
        env.exec("true", timeout=0.5)
    emulator.release()
    assert env.exec("echo on").text == "on\n"
