"""An account that has used up its processes: kills still work, and what cannot be started is never taken for a result."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import BackendUnavailable, CommandTimeout, open_environment
from hermes_env_ssh._remote import LINK_VARIABLE, guard_script
from tests import sshd
from tests.sshd import Account, marked

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
DEADLINE = 60.0
SHELLS = ("dash", "bash", "busybox sh", "mksh", "yash", "zsh")


@pytest.fixture
def person() -> Iterator[Account]:
    """A temporary account, and the end of all that it runs: a limit on processes does not bind root."""
    if os.geteuid() != 0 or not os.path.exists(PYTHON):
        pytest.skip("only root can make accounts, and the account needs a Python of the system")
    with sshd.account() as made:
        try:
            yield made
        finally:
            while left := living(made.name):
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


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
            # What init has not collected yet still counts as processes.
            wait_for(lambda: has_room(person))
            assert env.exec("echo next").stdout == b"next\n"


def has_room(person: Account) -> bool:
    """Whether init has collected what was killed."""
    listed = subprocess.run(["ps", "-o", "pid=", "-u", person.name], capture_output=True, text=True, check=False)
    return len(listed.stdout.split()) < LIMIT // 2


def test_a_dead_client_leaves_no_greedy_command(crowded: Sshd, person: Account) -> None:
    """The end of the connection ends it too."""
    env = open_environment("ssh", **crowded.options())
    process = env.start(GREEDY, env={"PYTHON": PYTHON})
    assert next(iter(process)) == ("stdout", b"on\n")
    wait_for(lambda: len(living(person.name)) > LIMIT // 2)
    env._pool._links[0].drop()  # type: ignore[attr-defined] # noqa: SLF001 - what the death of the client is to the server
    wait_for(lambda: marked(process.id) == [])
    env.close()


def test_what_cannot_be_started_is_no_result(crowded: Sshd, person: Account) -> None:
    """While others hold every process, a command is refused or runs; it never gets a status that is not its own."""
    with open_environment("ssh", **crowded.options()) as env:
        holder = env.start(GREEDY, env={"PYTHON": PYTHON})
        assert next(iter(holder)) == ("stdout", b"on\n")
        wait_for(lambda: len(living(person.name)) > LIMIT // 2)
        refused = 0
        for _ in range(6):
            try:
                assert env.exec("echo ran").stdout == b"ran\n"
            except BackendUnavailable as error:
                assert error.reason == "capacity"
                refused += 1
        assert refused >= 3
        with pytest.raises(CommandTimeout):
            env.exec("sleep 100", timeout=0.01)
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
        with greedy:
            wait_for(lambda: len(living(person.name)) > LIMIT // 2)
            guard.stdin.write(f"k {tag} 0\np still\nK {tag}\n".encode())
            lines = []
            while not (lines and b" killed " in lines[-1] and lines[-1].endswith(b" left 0\n")):
                lines.append(guard.stdout.readline())
                assert lines[-1], lines
            assert any(line.startswith(b"still pong") for line in lines)
            assert marked(tag) == []
        guard.stdin.write(b"q\n")
        guard.stdin.close()
