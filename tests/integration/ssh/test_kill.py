"""Nothing is left running: after a kill, after a timeout, after the death of the client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, CommandTimeout, open_environment
from tests import sshd
from tests.processes import marked

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from tests.sshd import Sshd

BOUND = 10.0
"""Seconds within which the commands of a dead client are gone; the documentation says 5 on an idle machine."""

TREES = {
    "plain": "sleep 1000",
    "background": "sleep 1000 & sleep 1000",
    "setsid": "setsid sleep 1000 & sleep 1000",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 & wait",
    "daemon": "(setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 1000; done",
    "stopped": "sh -c 'kill -s STOP $$' & sleep 1000",
    "forking": "while :; do sleep 1000 & sleep 0.05; done",
    "no environment": "env -i sleep 1000 & sleep 1000",
}


def wait_gone(mark: str, seconds: float) -> list[int]:
    """What is left after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.mark.parametrize("tree", TREES)
def test_the_whole_tree_is_gone(env: BaseEnvironment, tree: str) -> None:
    """When `kill` returns, no process of the command is left, however it tried to get away."""
    process = env.start(f"echo on; {TREES[tree]}", env={"TREE": "canary"})
    assert next(iter(process)) == ("stdout", b"on\n")
    assert marked(process.id)
    process.kill()
    assert marked(process.id) == []
    with pytest.raises(CommandCancelled) as caught:
        process.wait(30)
    assert not caught.value.result.kill_unconfirmed
    assert caught.value.result.exit_code == 137
    assert env.exec("echo still here").ok


def test_terminate_lets_a_command_clean_up(env: BaseEnvironment) -> None:
    """TERM comes first, and the command's last words are in the result."""
    process = env.start("trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.05; done")
    assert next(iter(process)) == ("stdout", b"on\n")
    process.terminate(grace=20)
    with pytest.raises(CommandCancelled) as caught:
        process.wait(30)
    assert caught.value.result.stdout == b"on\nbye\n"
    assert caught.value.result.exit_code == 3


def test_timeout(env: BaseEnvironment) -> None:
    """The deadline kills the tree; the output so far is in the error."""
    with pytest.raises(CommandTimeout) as caught:
        env.exec("echo so far; setsid sleep 1000 & sleep 1000", timeout=1)
    assert caught.value.result.stdout == b"so far\n"
    assert not caught.value.result.kill_unconfirmed


def test_kill_races_with_the_start(start: Callable[..., Sshd], tmp_path: Path) -> None:
    """A kill at any moment of a slow start leaves nothing behind."""
    path = sshd.find("bash")
    assert path is not None
    server = start(shell=path, rc="sleep 0.2\n")
    with open_environment("ssh", **server.options()) as env:
        for moment in range(8):
            process = env.start("setsid sleep 1000 & sleep 1000")
            time.sleep(moment * 0.05)
            process.kill()
            with pytest.raises(CommandCancelled) as caught:
                process.wait(60)
            assert not caught.value.result.kill_unconfirmed
            assert wait_gone(process.id, 1.0) == []


CLIENT = """
import json, sys, time
from hermes_env import open_environment
env = open_environment("ssh", **json.loads(sys.argv[1]))
running = [env.start("trap '' TERM HUP; echo on; setsid sleep 1000 & sleep 1000", env={"CANARY": sys.argv[2]})
           for _ in range(3 if sys.argv[3] == "many" else 1)]
for process in running:
    next(iter(process))
late = [env.start("sleep 1000", env={"CANARY": sys.argv[2]}) for _ in range(2)]
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("sessions", ["10", "1"])
def test_a_dead_client_leaves_nothing(start: Callable[..., Sshd], sessions: str) -> None:
    """Commands of a client that was killed end within the documented bound, those that just started too."""
    path = sshd.find("bash")
    assert path is not None
    server = start(shell=path, rc="sleep 0.3\n", lines=(f"MaxSessions {sessions}",))
    canary = f"canary-{os.getpid()}-{sessions}-{time.monotonic_ns()}"
    many = "many" if sessions != "1" else "one"
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, json.dumps(server.options()), canary, many], stdout=subprocess.PIPE
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        assert marked(f"CANARY={canary}")
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        if client.stdout is not None:
            client.stdout.close()
    began = time.monotonic()
    while time.monotonic() - began < BOUND and (marked(f"CANARY={canary}") or time.monotonic() - began < 3):
        time.sleep(0.1)
    assert marked(f"CANARY={canary}") == []
