"""The kill of a tree of this machine, below any environment."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hermes_env._kill_local import kill_tree
from hermes_env._kill_script import KillReport
from tests.processes import marked

PATIENCE = 30.0
ID = "kill-tree-test"


@contextmanager
def tree(script: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A shell that leads a session and says when its children run, and the id that all of them carry."""
    command_id = f"{ID}-{os.getpid()}-{os.urandom(6).hex()}"
    environ = {"PATH": os.environ["PATH"], "HERMES_ENV_COMMAND": command_id}
    with subprocess.Popen(
        ["sh", "-c", f"{script} echo up; sleep 300"], stdout=subprocess.PIPE, env=environ, start_new_session=True
    ) as root:
        assert root.stdout is not None
        assert root.stdout.readline() == b"up\n"
        try:
            yield root, command_id
        finally:
            for pid in marked(command_id):
                os.kill(pid, 9)
            root.kill()


def kill(root: subprocess.Popen[bytes], command_id: str, within: float) -> KillReport:
    """Kill a tree; nobody has reaped its root yet."""
    return kill_tree(command_id, root.pid, grace=0, lock=threading.RLock(), reaped=lambda: False, within=within)


def test_without_any_time_what_was_stopped_is_killed() -> None:
    """On a machine too slow for the whole way, what was found ends; a process that was only stopped would stay."""
    with tree("sleep 300 & setsid sleep 300 &") as (root, command_id):
        assert not kill(root, command_id, within=0).confirmed
        assert root.wait(PATIENCE) == -9


def test_older_processes_and_those_without_the_id_are_spared() -> None:
    """A process that was there before, and a younger one of another command, live on."""
    with tree("") as (older, _), tree("setsid sleep 300 &") as (root, command_id), tree("") as (younger, _):
        report = kill(root, command_id, within=PATIENCE)
        assert report.confirmed
        assert report.killed >= 2
        assert marked(command_id) == []
        assert (older.poll(), younger.poll()) == (None, None)
