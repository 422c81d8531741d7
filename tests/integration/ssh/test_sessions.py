"""Many commands on few sessions: the queue, its end, and kills that need no session."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import BackendUnavailable, CommandCancelled, CommandTimeout, Process, open_environment
from tests.integration.ssh.conftest import need
from tests.proxy import proxied
from tests.waiting import until

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from tests.sshd import Sshd

Start = Callable[..., "Sshd"]

MEET = """
: > "$1/$2"
n=0
while [ "$(ls "$1" | wc -l)" -lt "$3" ]; do
  n=$((n + 1)); [ "$n" -lt 600 ] || exit 9
  sleep 0.1
done
cat
"""
"""Ends only when so many of its kind run at once."""


def meet(env: BaseEnvironment, folder: Path, count: int, look: Callable[[str, bytes], None] | None = None) -> list[int]:
    """Exit codes of commands each of which waits until all of them run."""
    folder.mkdir()
    argv = ["sh", "-c", MEET, "sh", str(folder)]
    processes = [env.start([*argv, str(n), str(count)], stdin=b"%d" % n, on_output=look) for n in range(count)]
    results = [process.wait(120) for process in processes]
    assert [result.stdout for result in results] == [b"%d" % n for n in range(count)]
    return [result.exit_code for result in results]


def test_64_commands_at_once_on_one_connection(start: Start, tmp_path: Path) -> None:
    """Where the server allows it, all run at once on one connection, with one thread and no descriptor each."""
    server = start(lines=("MaxSessions 100",))
    with proxied(server.port) as proxy, open_environment("ssh", **server.options(port=proxy.port)) as env:
        assert env.exec("true").ok
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        most, one_at_a_time = [0, 0], threading.Lock()

        def look(_stream: str, _data: bytes) -> None:
            with one_at_a_time:  # Looking takes a descriptor.
                most[0] = max(most[0], threading.active_count() - threads)
                most[1] = max(most[1], len(os.listdir("/proc/self/fd")) - descriptors)

        assert meet(env, tmp_path / "meeting", 64, look) == [0] * 64
        assert proxy.connections == 1
        assert most[0] <= 66
        assert most[1] <= 2


def test_more_commands_than_sessions(server: Sshd) -> None:
    """With 10 sessions on a connection, 60 commands wait for each other, and none is refused or run twice."""
    with proxied(server.port) as proxy, open_environment("ssh", **server.options(port=proxy.port)) as env:
        log = f"/tmp/hermes-env-{env.exec('echo $$').text.strip()}"
        processes = [env.start(f"echo {n} >>{log}; sleep 0.05; exit {n}") for n in range(60)]
        assert [process.wait(120).exit_code for process in processes] == list(range(60))
        lines = env.exec(f"cat {log}; rm {log}").text.split()
        assert sorted(lines, key=int) == [str(n) for n in range(60)]
        assert proxy.connections == 1


def test_several_connections(server: Sshd, tmp_path: Path) -> None:
    """With the option, more connections are made when one is full, and only then."""
    with (
        proxied(server.port) as proxy,
        open_environment("ssh", **server.options(port=proxy.port, connections=4)) as env,
    ):
        assert env.exec("true").ok
        assert proxy.connections == 1
        assert meet(env, tmp_path / "meeting", 30) == [0] * 30
        assert 2 <= proxy.connections <= 4


def test_a_crowd_is_exact(start: Start) -> None:
    """A server that is so busy that it tells the end of commands before their output costs no byte."""
    server = start(lines=("MaxSessions 300",))
    with open_environment("ssh", **server.options(connections=2)) as env:
        for _ in range(2):
            data = os.urandom(1 << 16)
            processes = [env.start("cat", stdin=data) for _ in range(250)]
            assert [process.wait(120).stdout == data for process in processes] == [True] * 250


@pytest.fixture
def single(start: Start) -> Sshd:
    """A server with one session on a connection."""
    return start(lines=("MaxSessions 1",))


def test_one_session(single: Sshd) -> None:
    """Commands run one after the other; a second connection carries the guard."""
    with proxied(single.port) as proxy, open_environment("ssh", **single.options(port=proxy.port)) as env:
        processes = [env.start(["echo", str(n)]) for n in range(6)]
        assert [process.wait(60).text for process in processes] == [f"{n}\n" for n in range(6)]
        assert proxy.connections == 2


def test_kill_when_no_session_is_left(single: Sshd) -> None:
    """The only session is taken by the command that is to be killed."""
    with open_environment("ssh", **single.options()) as env:
        with pytest.raises(CommandTimeout) as caught:
            env.exec("trap : TERM; setsid sleep 1000 & while :; do sleep 1000; done", timeout=1)
        assert not caught.value.result.kill_unconfirmed
        assert caught.value.result.state == "cancelled"
        assert env.exec("echo next").stdout == b"next\n"


def started(env: BaseEnvironment, script: str) -> Process:
    """A command that has begun to run."""
    process = env.start(f"echo on; {script}")
    assert next(iter(process)) == ("stdout", b"on\n")
    return process


def test_cancel_while_waiting_for_a_session(single: Sshd, tmp_path: Path) -> None:
    """A command killed in the queue is never dispatched, and others are not disturbed."""
    with open_environment("ssh", **single.options()) as env:
        holder = started(env, "sleep 3; echo held")
        waiting = env.start(["touch", str(tmp_path / "ran")])
        waiting.kill()
        with pytest.raises(CommandCancelled) as caught:
            waiting.wait(30)
        assert caught.value.result.state == "cancelled"
        assert holder.wait(30).ok
        assert env.exec("true").ok
    assert not (tmp_path / "ran").exists()


def test_timeout_while_waiting_for_a_session(single: Sshd, tmp_path: Path) -> None:
    """A deadline that passes in the queue ends the wait; nothing runs afterwards."""
    with open_environment("ssh", **single.options()) as env:
        holder = started(env, "sleep 1000")
        began = time.monotonic()
        with pytest.raises(CommandTimeout):
            env.exec(["touch", str(tmp_path / "ran")], timeout=0.5)
        assert time.monotonic() - began < 10
        holder.kill()
        assert env.exec("true").ok
    assert not (tmp_path / "ran").exists()


def test_close_while_commands_wait(single: Sshd) -> None:
    """Closing ends what runs and what waits."""
    env = open_environment("ssh", **single.options())
    processes = [started(env, "sleep 1000"), *(env.start("sleep 1000") for _ in range(4))]
    env.close()
    for process in processes:
        with pytest.raises(CommandCancelled):
            process.wait(30)


def test_no_session_at_all(start: Start) -> None:
    """A server that allows none says so when the environment is opened."""
    server = start(lines=("MaxSessions 0",))
    with pytest.raises(BackendUnavailable, match="no session") as caught:
        open_environment("ssh", **server.options())
    assert caught.value.reason == "denied"


def test_close_from_another_thread(server: Sshd) -> None:
    """A command that runs while another thread closes is cancelled."""
    env = open_environment("ssh", **server.options())
    process = started(env, "sleep 1000")
    closer = threading.Thread(target=env.close)
    closer.start()
    with pytest.raises(CommandCancelled):
        process.wait(30)
    closer.join()


def test_login_shells_that_hang_hold_up_no_others(start: Start) -> None:
    """More than may start at once: a later command whose shell comes still runs; closing waits for all together."""
    need("bash")
    flag = "/tmp/hermes-env-test-" + secrets.token_hex(8)
    server = start(shell="/bin/bash", rc=f"[ ! -e {flag} ] || exec sleep 600.25\n", lines=("MaxSessions 100",))
    try:
        with open_environment("ssh", **server.options()) as env:
            Path(flag).touch()
            hung = [env.start("true") for _ in range(15)]
            until(lambda: len(asleep()) >= 12)
            os.unlink(flag)
            # One of them may get the spare session, whose shell hangs too.
            later = [env.start("echo ran") for _ in range(2)]
            until(lambda: any(process.state == "finished" for process in later))
            assert sum(process.state == "finished" for process in hung) < 2
            began = time.monotonic()
        assert time.monotonic() - began < 40
    finally:
        # Nothing of a command has come to them: they would end by themselves after their sleep.
        for pid in asleep():
            os.kill(pid, signal.SIGKILL)


def asleep() -> list[int]:
    """Login shells that wait in their start-up file."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00600.25\x00":
                found.append(int(pid))
    return found
