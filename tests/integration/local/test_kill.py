"""Whoever ends a command ends its whole tree: kill, deadlines, closing, Ctrl-C and the end of the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_env import (
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    InvalidArgument,
    open_environment,
)
from tests.integration.local.processes import TREES, run_client, started
from tests.processes import is_dead, marked
from tests.waiting import until


@pytest.mark.parametrize("shape", TREES)
def test_kill_ends_the_whole_tree(env: BaseEnvironment, shape: str) -> None:
    """Children, sessions of their own, orphans, stopped and deaf processes: none is left when kill returns."""
    process = env.start(TREES[shape])
    started(process, 3 if shape != "stopped" else 2)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(20)
    assert marked(process.id) == []
    assert not caught.value.result.kill_unconfirmed
    assert caught.value.result.state == process.state == "cancelled"
    process.kill()
    assert env.exec("echo next").stdout == b"next\n"


def test_terminate_lets_a_command_clean_up(env: BaseEnvironment) -> None:
    """TERM comes first; a command that ends by itself within the grace keeps its last words."""
    process = env.start("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done")
    next(iter(process))
    process.terminate(grace=20)
    with pytest.raises(CommandCancelled) as caught:
        process.wait(20)
    assert caught.value.result.stdout == b"ready\nbye\n"


def test_terminate_kills_the_deaf_after_the_grace(env: BaseEnvironment) -> None:
    """A tree that ignores TERM is killed when the grace is over."""
    process = env.start(TREES["deaf"])
    started(process, 3)
    process.terminate(grace=0.2)
    with pytest.raises(CommandCancelled):
        process.wait(20)
    assert marked(process.id) == []


def test_kill_does_not_wait_for_an_earlier_grace(env: BaseEnvironment) -> None:
    """A kill during a long terminate ends the command now."""
    process = env.start(TREES["deaf"])
    started(process, 3)
    patient = threading.Thread(target=process.terminate, kwargs={"grace": 300})
    patient.start()
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(20)
    assert marked(process.id) == []
    patient.join(60)
    assert not patient.is_alive()


def test_negative_grace_is_refused(local: BaseEnvironment) -> None:
    """A grace below zero is an error of the caller."""
    process = local.start("true")
    with pytest.raises(InvalidArgument, match="grace"):
        process.terminate(grace=-1)
    process.wait(20)


def test_timeout_kills_and_keeps_the_output(env: BaseEnvironment) -> None:
    """At the deadline the tree dies; the error carries what came before."""
    with pytest.raises(CommandTimeout) as caught:
        env.exec("echo before; setsid sleep 300 & sleep 300", timeout=0.5)
    result = caught.value.result
    assert result.stdout == b"before\n"
    assert (result.state, result.exit_code, result.kill_unconfirmed) == ("cancelled", 137, False)
    assert isinstance(caught.value, TimeoutError)


def test_timeout_bounds_a_started_command(env: BaseEnvironment) -> None:
    """A deadline also ends a command that nobody waits for."""
    process = env.start("sleep 300", timeout=0.3)
    until(lambda: process.state == "cancelled")
    assert marked(process.id) == []
    with pytest.raises(CommandTimeout):
        process.wait()


def test_default_timeout_is_the_environments() -> None:
    """`timeout=` of open_environment applies to each command."""
    with open_environment("local", timeout=0.2) as env, pytest.raises(CommandTimeout):
        env.exec("sleep 300")


def test_close_kills_what_runs(env: BaseEnvironment) -> None:
    """Closing an environment ends its commands; whoever waits gets CommandCancelled."""
    process = env.start(TREES["setsid"])
    started(process, 3)
    env.close()
    assert marked(process.id) == []
    with pytest.raises(CommandCancelled):
        process.wait(20)


def test_close_ends_exec_of_another_thread(local: BaseEnvironment) -> None:
    """`exec` in one thread ends when another closes the environment."""
    ready = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(local.exec, "echo up; sleep 300", on_output=lambda *_: ready.set())
        assert ready.wait(20)
        local.close()
        with pytest.raises(CommandCancelled):
            running.result(20)


def test_interrupt_kills_the_command() -> None:
    """Ctrl-C during exec ends the command's tree and comes out as KeyboardInterrupt."""
    client = run_client(
        """
        import hermes_env, sys
        env = hermes_env.open_environment("local")
        try:
            env.exec("echo $HERMES_ENV_COMMAND; setsid sleep 300 & sleep 300",
                     on_output=lambda s, d: (sys.stdout.buffer.write(d), sys.stdout.flush()))
        except KeyboardInterrupt:
            print("interrupted")
        env.close()
        """
    )
    assert client.stdout is not None
    with client, client.stdout:
        mark = client.stdout.readline().decode().strip()
        client.send_signal(signal.SIGINT)
        assert client.stdout.read() == b"interrupted\n"
        assert client.wait(20) == 0
    assert marked(mark) == []


@pytest.mark.parametrize("shape", ["plain", "setsid"])
def test_death_of_the_client_ends_its_commands(shape: str) -> None:
    """SIGKILL of the client process leaves none of its running commands; finished ones' daemons stay."""
    client = run_client(
        """
        import hermes_env, sys
        env = hermes_env.open_environment("local")
        print(env.exec("setsid sleep 30 >/dev/null 2>&1 & echo $!").text.strip(), flush=True)
        process = env.start("echo $HERMES_ENV_COMMAND;" + sys.argv[1])
        print(next(iter(process))[1].decode().strip(), flush=True)
        process.wait()
        """,
        TREES[shape],
    )
    assert client.stdout is not None
    with client, client.stdout:
        daemon = int(client.stdout.readline())
        mark = client.stdout.readline().decode().strip()
        until(lambda: len(marked(mark)) >= 3)
        client.kill()
    until(lambda: marked(mark) == [])
    assert not is_dead(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_closing_at_the_end_of_the_program_ends_all() -> None:
    """Where no thread can be started any more, commands are killed one after the other, without a word."""
    program = """
import atexit, concurrent.futures.thread
from hermes_env import open_environment
env = open_environment("local")
atexit.register(lambda: print(*(process.state for process in running)))
atexit.register(env.close)
running = [env.start("echo up; sleep 600") for _ in range(3)]
for process in running:
    next(iter(process))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"cancelled cancelled cancelled\n", b"")
