"""Cancellation laws on a staged backend: a command runs at most once and leaves nothing, whatever goes wrong.

Each test drives the environment through public names only, and looks at the disk, not at what we say about it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import (
    CommandCancelled,
    CommandTimeout,
    HermesEnvError,
    OutcomeUnknown,
    Process,
    StagingError,
)
from tests.waiting import until

if TYPE_CHECKING:
    from tests.backends.faults import Fault, Kind
    from tests.backends.uploads import UploadEnvironment

SECRET = "canary-5d1f0c7e"
PATIENCE = 20.0

# Where a command is held: the step of the SDK, and what marks the call that carries it.
HELD = {
    "staging": ("upload", ".in"),
    "staged": ("upload", ".sh"),
    "dispatched": ("execute", ".sh'"),
}


def start(env: UploadEnvironment, script: str = "", timeout: float | None = None) -> Process:
    """A command that leaves a line each time it runs, with a secret in stdin, arguments and variables."""
    program = f"echo ran >>ran; cat >/dev/null; touch started; {script} : {SECRET}-script"
    stdin = SECRET.encode() + b"-stdin" * 1000
    return env.start(program, stdin=stdin, env={"TOKEN": f"{SECRET}-env"}, timeout=timeout)


def runs(root: Path) -> int:
    """How often the command has run."""
    marks = root / "ran"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def files_with_secret(root: Path) -> list[str]:
    """Files under the root whose content holds the secret."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                content = Path(folder, name).read_bytes()
            except FileNotFoundError:
                continue  # Erased while we looked.
            if SECRET.encode() in content:
                found.append(name)
    return found


def outcome(process: Process) -> type[BaseException] | None:
    """The error by which a command ended."""
    try:
        process.wait(PATIENCE)
    except HermesEnvError as error:
        return type(error)
    return None


def assert_nothing_left(env: UploadEnvironment, root: Path, *, most: int) -> None:
    """At most so many runs, no secret on the disk, neighbours alive, and the next command works."""
    env.sdk.faults.release()
    until(lambda: not files_with_secret(root), PATIENCE, f"left: {files_with_secret(root)}")
    assert env.exec("cat; echo fine >&2", stdin=b"next").stdout == b"next"
    assert env.alive()
    assert runs(root) <= most
    assert not files_with_secret(root)


def hold(env: UploadEnvironment, state: str) -> Fault:
    """Make the next command stop in a state until the test lets it go on."""
    step, match = HELD[state]
    return env.sdk.faults.arm(step, "delay", match=match)


@pytest.mark.parametrize("state", HELD)
def test_killed_before_it_started_never_runs(env: UploadEnvironment, tmp_path: Path, state: str) -> None:
    """A command killed while its uploads or its dispatch are under way never runs, not even when they land later."""
    fault = hold(env, state)
    process = start(env)
    assert fault.reached.wait(PATIENCE)
    process.kill()
    assert outcome(process) is CommandCancelled
    fault.gate.set()
    assert fault.landed.wait(PATIENCE)
    assert_nothing_left(env, tmp_path, most=0)
    if state != "dispatched":
        assert env.sdk.faults.count("execute", process.id + ".sh") == 0


@pytest.mark.parametrize("state", HELD)
def test_timed_out_before_it_started_never_runs(env: UploadEnvironment, tmp_path: Path, state: str) -> None:
    """A deadline that passes while an upload or the dispatch hangs ends the command, which never runs."""
    fault = hold(env, state)
    process = start(env, timeout=0.3)
    assert outcome(process) is CommandTimeout
    assert fault.reached.is_set()
    fault.gate.set()
    assert fault.landed.wait(PATIENCE)
    assert_nothing_left(env, tmp_path, most=0)


def test_killed_while_it_runs(env: UploadEnvironment, tmp_path: Path) -> None:
    """A kill of a running command ends its whole tree and nothing else, and keeps the output so far."""
    neighbour = env.start("echo up; exec sleep 600")
    process = start(env, "echo before; setsid sleep 600 & sleep 600;")
    until((tmp_path / "started").exists, PATIENCE, "the command did not start")
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(PATIENCE)
    assert caught.value.result.stdout == b"before\n"
    assert not caught.value.result.kill_unconfirmed
    assert process.id not in "".join(environments())
    assert neighbour.id in "".join(environments())
    neighbour.kill()
    assert_nothing_left(env, tmp_path, most=1)


def environments() -> list[str]:
    """The initial variables of every process that we may look at."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path("/proc", pid, "environ").read_bytes().decode("latin-1"))
        except OSError:
            continue
    return found


def test_timed_out_while_it_runs(env: UploadEnvironment, tmp_path: Path) -> None:
    """A deadline ends a running command and its error carries the output so far, though the SDK would lose it."""
    process = start(env, "echo before; sleep 600;", timeout=2.0)
    with pytest.raises(CommandTimeout) as caught:
        process.wait(PATIENCE)
    if caught.value.result.stdout_total:
        assert caught.value.result.stdout == b"before\n"
    assert_nothing_left(env, tmp_path, most=1)


@pytest.mark.parametrize("kind", ["error_before", "error_after", "late"])
@pytest.mark.parametrize("state", ["staging", "staged"])
def test_failed_upload(env: UploadEnvironment, tmp_path: Path, state: str, kind: Kind) -> None:
    """An upload that fails, before, after or long before it takes effect, ends in an error, never in a run."""
    step, match = HELD[state]
    fault = env.sdk.faults.arm(step, kind, match=match)
    process = start(env)
    assert outcome(process) is StagingError
    assert env.sdk.faults.count("execute", process.id + ".sh") == 0
    fault.gate.set()
    if kind == "late":
        assert fault.landed.wait(PATIENCE)
        # It landed after everything had been erased: the next command erases it.
        assert env.exec("true").ok
    assert_nothing_left(env, tmp_path, most=0)


def test_dispatch_that_never_arrives(env: UploadEnvironment, tmp_path: Path) -> None:
    """A dispatch that failed before it arrived is reported as "nothing ran"."""
    env.sdk.faults.arm("execute", "error_before", match=".sh'")
    assert outcome(start(env)) is StagingError
    assert_nothing_left(env, tmp_path, most=0)


def test_dispatch_that_arrives_late(env: UploadEnvironment, tmp_path: Path) -> None:
    """A dispatch that failed and arrives after we said "nothing ran" does not run."""
    fault = env.sdk.faults.arm("execute", "late", match=".sh'")
    assert outcome(start(env)) is StagingError
    fault.gate.set()
    assert fault.landed.wait(PATIENCE)
    assert_nothing_left(env, tmp_path, most=0)


def test_lost_reply_becomes_known(env: UploadEnvironment, tmp_path: Path) -> None:
    """A command whose reply was lost is not run again; what it did is found out by a second request."""
    env.sdk.faults.arm("execute", "error_after", match=".sh'")
    result = start(env, "echo out; echo err >&2; exit 7;").wait(PATIENCE)
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert_nothing_left(env, tmp_path, most=1)
    assert runs(tmp_path) == 1


def test_connection_cut_while_it_runs(env: UploadEnvironment, tmp_path: Path) -> None:
    """A connection cut in the middle of a command costs nothing: its end is waited for and reported."""
    fault = env.sdk.faults.arm("execute", "abandoned", match=".sh'")
    process = start(env, "while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3;")
    until((tmp_path / "started").exists, PATIENCE, "the command did not start")
    fault.gate.set()
    until(lambda: env.sdk.faults.count("execute", " starting; ") > 1, PATIENCE, "nobody looked")
    (tmp_path / "go").touch()
    result = process.wait(PATIENCE)
    assert (result.exit_code, result.stdout) == (3, b"done\n")
    assert_nothing_left(env, tmp_path, most=1)


def test_request_sent_twice(env: UploadEnvironment, tmp_path: Path) -> None:
    """A dispatch that the SDK sends twice runs once, and the result is that of the run."""
    env.sdk.faults.arm("execute", "twice", match=".sh'")
    result = start(env, "echo out; exit 4;").wait(PATIENCE)
    assert (result.exit_code, result.stdout) == (4, b"out\n")
    assert runs(tmp_path) == 1
    assert_nothing_left(env, tmp_path, most=1)


def test_lost_link(env: UploadEnvironment, tmp_path: Path) -> None:
    """When neither the reply nor any later question gets through, the outcome is unknown, and it is not run again."""
    env.sdk.faults.arm("execute", "error_after", match=".sh'")
    link = env.sdk.faults.arm("execute", "error_before", times=1000)
    assert outcome(start(env)) is OutcomeUnknown
    link.times = 0
    assert_nothing_left(env, tmp_path, most=1)
    assert runs(tmp_path) == 1


def test_lost_link_then_killed(env: UploadEnvironment, tmp_path: Path) -> None:
    """A kill that cannot reach the environment returns in bounded time and says that it is not confirmed."""
    process = start(env, "while [ ! -e go ]; do sleep 0.05; done;")
    until((tmp_path / "started").exists, PATIENCE, "the command did not start")
    link = env.sdk.faults.arm("execute", "error_before", times=1000)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(PATIENCE)
    assert caught.value.result.kill_unconfirmed
    link.times = 0
    (tmp_path / "go").touch()
    assert_nothing_left(env, tmp_path, most=1)


def test_killed_after_the_reply_was_lost(env: UploadEnvironment, tmp_path: Path) -> None:
    """A command that ended while its reply hangs can be cancelled; its output is found all the same."""
    fault = env.sdk.faults.arm("execute", "lost", match=".sh'")
    process = start(env, "echo out;")
    assert fault.landed.wait(PATIENCE)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(PATIENCE)
    assert caught.value.result.stdout == b"out\n"
    assert_nothing_left(env, tmp_path, most=1)


def test_kill_before_anything(env: UploadEnvironment, tmp_path: Path) -> None:
    """A process killed right after `start` never runs, or runs once and is ended; it never leaves anything."""
    for _ in range(5):
        process = start(env, "sleep 600;")
        process.kill()
        assert outcome(process) is CommandCancelled
    assert_nothing_left(env, tmp_path, most=5)


def test_failing_stdin_of_the_caller(env: UploadEnvironment, tmp_path: Path) -> None:
    """An iterable that raises while it is staged ends in its own error, and the command does not run."""

    def chunks() -> object:
        yield SECRET.encode()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        env.exec("echo ran >>ran; cat", stdin=chunks())  # type: ignore[arg-type]
    assert_nothing_left(env, tmp_path, most=0)


def test_close_while_an_upload_hangs(tmp_path: Path, env: UploadEnvironment) -> None:
    """Closing in the middle of an upload returns, and what lands afterwards is erased by who uploaded it."""
    fault = hold(env, "staging")
    process = start(env)
    assert fault.reached.wait(PATIENCE)
    env.close()
    assert outcome(process) is CommandCancelled
    fault.gate.set()
    assert fault.landed.wait(PATIENCE)
    env.sdk.faults.release()
    until(lambda: not files_with_secret(tmp_path), PATIENCE, "the late upload is still there")
    assert runs(tmp_path) == 0
