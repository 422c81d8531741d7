"""Kills inside a container, seen from the host's process table: the tree is gone, the container stays."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    OutcomeUnknown,
    open_environment,
    reap,
)
from tests.engine import IMAGE, Engine

TREES = {
    "plain": "sleep {n} & sleep {n} & sleep {n}",
    "setsid": "setsid sleep {n} & setsid sh -c 'sleep {n} & sleep {n}' & sleep {n}",
    "orphan": "(setsid sh -c 'sleep {n} & sleep {n}' &) ; sleep {n}",
    "deaf": "trap '' TERM; sh -c \"trap '' TERM; sleep {n}\" & sleep {n}; sleep {n}",
    "stopped": "sleep {n} & kill -STOP $!; sleep {n}",
}


def sleeping(mark: str) -> list[str]:
    """Processes of the whole machine that sleep for `mark` seconds, read from /proc by no code of ours."""
    script = (
        f"grep -lsz -x -e {mark} /proc/[0-9]*/cmdline | while read -r f; do grep -qsz -x -e sleep $f && echo $f; done"
    )
    found = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    return [path for path in found.stdout.decode().split() if not _is_zombie(path)]


def _is_zombie(path: str) -> bool:
    try:
        with open(path.replace("cmdline", "stat"), encoding="utf-8") as file:
            return file.read().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for an event that must come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process of this machine sleeps for."""
    return f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"


@pytest.mark.parametrize("tree", TREES)
def test_timeout_ends_the_whole_tree(env: BaseEnvironment, mark: str, tree: str) -> None:
    """A command over its time is killed with all its children; the container takes the next command."""
    script = TREES[tree].replace("{n}", mark)
    with pytest.raises(CommandTimeout) as caught:
        env.exec(f"echo begun; {script}", timeout=1.0)
    assert sleeping(mark) == []
    assert caught.value.result.stdout == b"begun\n" and not caught.value.result.kill_unconfirmed
    assert env.exec("echo alive").text == "alive\n"


def test_kill_reaches_another_users_command(env: BaseEnvironment, mark: str) -> None:
    """A command of another user is killed by that user: root in a container may not look into it."""
    process = env.start(f"setsid sleep {mark} & sleep {mark}", user="agent")
    wait_until(lambda: len(sleeping(mark)) == 2, "the command did not start")
    process.kill()
    assert sleeping(mark) == []
    with pytest.raises(CommandCancelled) as caught:
        process.wait(10)
    assert caught.value.result.state == "cancelled" and not caught.value.result.kill_unconfirmed


def test_kill_while_the_engine_still_starts_the_command(env: BaseEnvironment, mark: str) -> None:
    """The engine answers before the process exists: a kill in between is not lost."""
    for pause in (0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.04) * 3:
        process = env.start(f"sleep {mark}")
        wait_until(lambda started=process: started.state == "dispatched", "never dispatched")  # type: ignore[misc]
        time.sleep(pause)
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(30)
    time.sleep(1)
    assert sleeping(mark) == []


def test_kill_leaves_other_commands_alone(env: BaseEnvironment, mark: str) -> None:
    """Only the killed command's tree ends."""
    other = env.start('read -r line; echo "$line"', live_stdin=True)
    process = env.start(f"sleep {mark}")
    wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
    process.kill()
    assert sleeping(mark) == []
    other.write(b"still here\n")
    assert other.wait(30).stdout == b"still here\n"


def test_terminate_lets_a_command_finish_in_its_own_way(env: BaseEnvironment) -> None:
    """A command that handles TERM within the grace ends with its own code and output."""
    process = env.start("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.1; done")
    assert next(iter(process)) == ("stdout", b"ready\n")
    process.terminate(grace=20)
    with pytest.raises(CommandCancelled) as caught:
        process.wait(30)
    assert caught.value.result.stdout == b"ready\nbye\n"
    assert caught.value.result.exit_code == 9


def test_close_kills_what_runs(engine: Engine, mark: str) -> None:
    """Closing ends running commands and removes the container before it returns."""
    env = open_environment("docker", image=IMAGE, host=engine.host, ttl=600)
    ident = env.ref.partition("://")[2]
    process = env.start(f"sleep {mark}")
    wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
    env.close()
    assert sleeping(mark) == [] and engine.inspect(ident, "{{.Id}}") == ""
    with pytest.raises(CommandCancelled):
        process.wait(10)
    env.close()


CLIENT = textwrap.dedent(
    """
    import sys, time
    from hermes_env import open_environment
    image, host, mark = sys.argv[1:]
    env = open_environment("docker", image=image, host=host, ttl=600)
    for script in [f"sleep {mark}; :"] * 4 + [f"(setsid env -i /bin/busybox sleep {mark} &); sleep {mark}"]:
        env.start(script)
    print(env.ref.partition("://")[2], flush=True)
    time.sleep(600)
    """
)


@contextlib.contextmanager
def client_of(engine: Engine, mark: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A client with five commands running, which the test ends, and the id of its container."""
    argv = [sys.executable, "-c", CLIENT, IMAGE, engine.host, mark]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        try:
            yield client, client.stdout.readline().decode().strip()
        finally:
            client.kill()


def test_client_killed_with_its_commands_running(engine: Engine, mark: str, listed: Callable[[], set[str]]) -> None:
    """When the client is SIGKILLed every process of its commands ends by itself; `reap` then removes the container."""
    with client_of(engine, mark) as (_, ident):
        wait_until(lambda: len(sleeping(mark)) == 6, "the commands did not start")
    wait_until(lambda: sleeping(mark) == [], "commands outlived their client")
    assert engine.inspect(ident, "{{.State.Running}}") == "true", "the container itself stays"
    assert ident in reap("docker", host=engine.host)
    assert ident not in listed()


JOINED = textwrap.dedent(
    """
    import sys, time
    from hermes_env import open_environment
    container, host, mark = sys.argv[1:]
    env = open_environment("docker", container=container, host=host)
    env.start(f"sleep {mark}; :")
    env.start(f"setsid sh -c 'sleep {mark} & sleep {mark}' & sleep {mark}; :")
    env.start(f"sleep {mark}", user="agent")
    time.sleep(600)
    """
)


def test_client_of_anothers_container_killed(engine: Engine, foreign: str, mark: str) -> None:
    """A container that the client only joined keeps running; the client's commands are gone within 5 s of SIGKILL."""
    other = f"{int(mark) + 1}"
    with open_environment("docker", container=foreign, host=engine.host) as beside:
        unharmed = beside.start(f"sleep {other}")
        with subprocess.Popen([sys.executable, "-c", JOINED, foreign, engine.host, mark]) as client:
            try:
                wait_until(lambda: len(sleeping(mark)) == 5, "the commands did not start")
            finally:
                client.kill()
        wait_until(lambda: sleeping(mark) == [], "commands outlived their client", 5)
        assert len(sleeping(other)) == 1 and unharmed.state == "dispatched"
        unharmed.kill()
    wait_until(lambda: _processes(engine, foreign) == 2, "a watcher is left")


def test_client_with_an_entrypoint_of_its_own_killed(engine: Engine, mark: str, listed: Callable[[], set[str]]) -> None:
    """A container that runs the caller's entry point loses the dead client's commands too, and can be reaped."""
    script = CLIENT.replace("ttl=600)", "entrypoint=('sleep', '600'))")
    with subprocess.Popen([sys.executable, "-c", script, IMAGE, engine.host, mark], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        ident = client.stdout.readline().decode().strip()
        # All but the one that cleared its environment: only the keeper's own kill, of everything, reaches that.
        wait_until(lambda: len(sleeping(mark)) == 6, "the commands did not start")
        client.kill()
    wait_until(lambda: len(sleeping(mark)) <= 1, "commands outlived their client")
    assert ident in reap("docker", host=engine.host)
    assert ident not in listed() and sleeping(mark) == []


def test_a_client_that_leaves_takes_its_watchers(engine: Engine, foreign: str) -> None:
    """Closing ends the watchers of every user, and kills nothing that was left running on purpose."""
    with open_environment("docker", container=foreign, host=engine.host) as env:
        env.exec("(setsid sleep 99 >/dev/null 2>&1 </dev/null &)", check=True)
        env.exec("true", user="agent")
    wait_until(lambda: _processes(engine, foreign) == 3, "a watcher is left, or the daemon is gone")


def _processes(engine: Engine, ident: str) -> int:
    """Processes of a container, as `docker top` counts them."""
    return len(engine.cli("top", ident, "-eo", "pid").stdout.split()) - 1


def test_detached_container_outlives_its_client(engine: Engine) -> None:
    """A container that was left on purpose is neither killed nor reaped."""
    script = (
        CLIENT.replace("print(env.ref", "open('/dev/null').close(); ref = env.detach(); print(ref")
        .replace("time.sleep(600)", "")
        .replace("for script in", "for script in [] and")
    )
    made = subprocess.run(
        [sys.executable, "-c", script, IMAGE, engine.host, "1"], capture_output=True, check=True, timeout=60
    )
    ident = made.stdout.decode().strip()
    try:
        wait_until(lambda: re.search(rb"hermes-env-detached \d+\n", _top(engine, ident)) is not None, "no keeper")
        assert ident not in reap("docker", host=engine.host)
        assert engine.inspect(ident, "{{.State.Running}}") == "true"
    finally:
        engine.cli("rm", "--force", ident)


def _top(engine: Engine, ident: str) -> bytes:
    return engine.cli("top", ident, "-eo", "pid,args").stdout


def test_keyboard_interrupt_kills(engine: Engine, mark: str) -> None:
    """Ctrl-C in `exec` ends the command, and `with` the container."""
    script = textwrap.dedent(
        """
        import sys
        from hermes_env import open_environment
        image, host, mark = sys.argv[1:]
        with open_environment("docker", image=image, host=host, ttl=600) as env:
            print(env.ref.partition("://")[2], flush=True)
            env.exec(f"sleep {mark}")
        """
    )
    client = subprocess.Popen(
        [sys.executable, "-c", script, IMAGE, engine.host, mark], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with client:
        assert client.stdout is not None
        ident = client.stdout.readline().decode().strip()
        wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
        client.send_signal(signal.SIGINT)
        _, stderr = client.communicate(timeout=60)
    assert b"KeyboardInterrupt" in stderr
    assert sleeping(mark) == [] and engine.inspect(ident, "{{.Id}}") == ""


def test_kill_from_many_threads(env: BaseEnvironment, mark: str) -> None:
    """Kill is idempotent from any number of threads."""
    process = env.start(f"sleep {mark}")
    wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
    killers = [threading.Thread(target=process.kill) for _ in range(4)]
    for killer in killers:
        killer.start()
    for killer in killers:
        killer.join(30)
    assert sleeping(mark) == [] and process.state == "cancelled"


def test_kill_when_no_process_can_be_started(engine: Engine) -> None:
    """A command that uses up all processes is killed with every child, and the container takes the next command."""
    fill = "(while :; do sleep 500 & done) 2>/dev/null; echo full; while :; do :; done"
    with open_environment("docker", image=IMAGE, host=engine.host, pids_limit=40, ttl=600) as env:
        for _ in range(3):
            running = env.start(fill)
            assert next(iter(running)) == ("stdout", b"full\n")
            # Whether the engine or the shell inside runs out first, it is never a result, nor blamed on the caller.
            with pytest.raises((BackendUnavailable, OutcomeUnknown)) as caught:
                env.exec("true")
            assert not isinstance(caught.value, BackendUnavailable) or caught.value.reason == "capacity"
            running.kill()
            with pytest.raises(CommandCancelled) as killed:
                running.wait(60)
            assert not killed.value.result.kill_unconfirmed
            assert env.exec("ps -o args | grep -c '[s]leep 500'").text == "0\n"


def test_many_kills_at_once(env: BaseEnvironment, mark: str) -> None:
    """Commands that are killed at the same time end each by its own kill, and no other command is hurt."""
    spared = env.start(f"sleep {mark}")
    running = [env.start(f"sleep {mark} & sleep {mark}; :") for _ in range(12)]
    wait_until(lambda: len(sleeping(mark)) == 25, "the commands did not start")
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda process: process.kill(), running))
    for process in running:
        with pytest.raises(CommandCancelled) as caught:
            process.wait(60)
        assert not caught.value.result.kill_unconfirmed
    assert len(sleeping(mark)) == 1
    spared.kill()
    wait_until(lambda: sleeping(mark) == [], "the last one is left")


def test_detached_after_a_kill(engine: Engine) -> None:
    """What the keeper has done for its client does not change what it is to later ones: detached stays detached."""
    with open_environment("docker", image=IMAGE, host=engine.host, ttl=600) as env:
        with pytest.raises(CommandTimeout):
            env.exec("sleep 60", timeout=0.5)
        ident = env.ref.partition("://")[2]
        env.detach()
    assert "hermes-env-detached" in engine.cli("top", ident, "-eo", "pid,args").stdout.decode()
    assert engine.cli("rm", "--force", ident).returncode == 0
