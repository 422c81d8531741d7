"""An account that has used up its processes: kills still work, and what cannot be started gets no exit status."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import BackendUnavailable, open_environment, parse_kill_report
from hermes_env_ssh._remote import LINK_VARIABLE, guard_script
from tests import sshd
from tests.processes import marked
from tests.sshd import Account

if TYPE_CHECKING:
    from tests.sshd import Sshd

LIMIT = 40
"""Processes that the account may have."""
GREEDY = """exec "$PYTHON" -c '
import os, signal, time
print("on", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
'"""
"""Takes every process that there is, and every one that becomes free."""
PYTHON = "/usr/bin/python3"
DEADLINE = 30.0
SHELLS = ("dash", "bash", "busybox sh", "mksh", "yash", "zsh --emulate sh")


@pytest.fixture
def person() -> Iterator[Account]:
    """A temporary account, and the end of all that it runs: a limit on processes does not bind root."""
    if os.geteuid() != 0 or not os.path.exists(PYTHON):
        pytest.skip("only root can make accounts, and the account needs a Python of the system")
    with sshd.account() as made:
        try:
            yield made
        finally:
            end_all(made.name)
            # The next account gets the same number, and what init has not collected counts.
            wait_for(lambda: count(made.name) == 0)


def end_all(user: str) -> None:
    """Kill all that a user runs."""
    while left := living(user):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def count(user: str) -> int:
    """Processes of a user, those included that have ended and are not collected: the limit counts them too."""
    return len(subprocess.run(["ps", "-o", "pid=", "-u", user], capture_output=True, check=False).stdout.split())


def living(user: str) -> list[int]:
    """Processes of a user that have not ended, as `ps` tells."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-u", user], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if line.split()[1][0] not in "ZX"]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait for a fact."""
    deadline = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


@pytest.fixture
def crowded(person: Account, tmp_path: Path) -> Iterator[Sshd]:
    """A server that gives the account few processes, as limits.conf does; kill and ssh are ordinary."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o711)
    with sshd.running(sshd.Sshd(tmp_path, user=person.name)) as server:
        assert server.process is not None
        subprocess.run(["prlimit", "--pid", str(server.process.pid), f"--nproc={LIMIT}:{LIMIT}"], check=True)
        yield server


def test_a_command_that_took_every_process_is_killed(crowded: Sshd, person: Account) -> None:
    """The deadline ends the whole tree though not one process can be started beside it, and the next command runs."""
    with open_environment("ssh", **crowded.options()) as env:
        for _ in range(2):
            process = env.start(GREEDY, env={"PYTHON": PYTHON})
            assert next(iter(process)) == ("stdout", b"on\n")
            wait_for(lambda: len(living(person.name)) > LIMIT // 2)
            process.kill()
            assert marked(process.id) == []
            with pytest.raises(Exception, match="cancelled") as caught:
                process.wait(DEADLINE)
            assert not caught.value.result.kill_unconfirmed  # type: ignore[attr-defined]
            wait_for(lambda: count(person.name) < LIMIT // 2)
            assert env.exec("echo next").stdout == b"next\n"


def test_a_dead_client_leaves_no_greedy_command(crowded: Sshd, person: Account) -> None:
    """The end of the connection ends it too."""
    env = open_environment("ssh", **crowded.options())
    process = env.start(GREEDY, env={"PYTHON": PYTHON})
    assert next(iter(process)) == ("stdout", b"on\n")
    wait_for(lambda: len(living(person.name)) > LIMIT // 2)
    env._pool._links[0].drop()  # type: ignore[attr-defined]
    wait_for(lambda: marked(process.id) == [])
    env.close()


def test_what_cannot_be_started_is_no_result(crowded: Sshd, person: Account) -> None:
    """While others hold every process, a command is refused or runs; it never gets a status that is not its own."""
    with open_environment("ssh", **crowded.options()) as env:
        holder = env.start(GREEDY, env={"PYTHON": PYTHON})
        assert next(iter(holder)) == ("stdout", b"on\n")
        wait_for(lambda: len(living(person.name)) > LIMIT // 2)
        refused: list[str] = []
        for _ in range(6):
            try:
                assert env.exec("echo ran").stdout == b"ran\n"
            except BackendUnavailable as error:
                refused.append(error.reason)
        assert set(refused) == {"capacity"}
        holder.kill()
        assert marked(holder.id) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_guard_of_any_shell(shell: str, person: Account) -> None:
    """Some shells end when they can start no process, some try for long: the other half of the guard kills without."""
    program, *rest = shell.split()
    path = sshd.find(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    limited = ["prlimit", f"--nproc={LIMIT}:{LIMIT}", "setpriv", f"--reuid={person.name}", "--clear-groups"]
    guard = subprocess.Popen(
        [*limited, path, *rest, "-c", 'IFS= read -r x;eval "$x"', "sh"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
    )  # fmt: skip
    tag = f"link.{os.urandom(8).hex()}"
    assert guard.stdin is not None
    assert guard.stdout is not None
    with guard:
        guard.stdin.write(guard_script("link") + b"p ready\n")
        assert guard.stdout.readline().startswith(b"ready pong")
        greedy = subprocess.Popen(
            [*limited, "/bin/sh", "-c", GREEDY],
            env={"PYTHON": PYTHON, LINK_VARIABLE: tag, "PATH": os.defpath},
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: len(living(person.name)) > LIMIT // 2)
            alarm = threading.Timer(DEADLINE, guard.kill)
            alarm.start()
            guard.stdin.write(f"k {tag} 0\np still\nK {tag}\n".encode())
            lines: list[bytes] = []
            while not (lines and b" killed " in lines[-1]):
                lines.append(guard.stdout.readline())
                assert lines[-1], lines
            alarm.cancel()
            # yash cannot read what has NUL bytes in it, and says so.
            confirmed = parse_kill_report(lines[-1].partition(b" ")[2]).confirmed
            assert confirmed == (program != "yash")
            assert any(line.startswith(b"still pong") for line in lines)
            assert marked(tag) == [] or not confirmed
        finally:
            end_all(person.name)
            greedy.wait()
