"""Faults between the SDK and the worker: cut, busy, refused, with tokens that run out."""

from __future__ import annotations

import hashlib
import random
import subprocess
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    InvalidArgument,
    OutcomeUnknown,
)
from tests.emulators.modal.client import Emulator
from tests.integration.clouds import Open, ident
from tests.integration.modal.sandboxes import EVERY_BYTE, SLOW
from tests.slow import ALL

RUNS = 50 if ALL else 8
UNAVAILABLE, INTERNAL = 14, 13
ALWAYS = -1


def digest(emulator: Emulator, env: BaseEnvironment, name: str) -> str:
    """SHA-256 of a file in the sandbox, by another program and from outside."""
    root = emulator.sandboxes()[ident(env)]["root"]
    done = subprocess.run(["sha256sum", f"{root}/root/{name}"], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split()[0]


# -- stdin --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", range(RUNS))
def test_stdin_that_is_cut_arrives_exactly_or_not_at_all(faulty: Open, emulator: Emulator, run: int) -> None:
    """A connection that is cut in the middle of stdin costs nothing, or is an error: never a damaged file."""
    env, dice = faulty(), random.Random(run)
    data = dice.randbytes(dice.choice([100_000, (4 << 20) + 1, 9 << 20]))
    for _ in range(dice.randint(1, 3)):
        kind = dice.choice(["abort", "abort", "abort_request", "drop_before", "drop_after"])
        settings = {"times": dice.randint(1, 3), "skip": dice.randint(0, 2), "reset": dice.random() < 0.5}
        emulator.fail("TaskExecStdinWrite", kind, dice.randint(0, 3 << 20), **settings)
    stdin = data if dice.random() < 0.5 else iter([data[:70_000], data[70_000:]])
    try:
        result = env.exec("cat >f; wc -c <f", stdin=stdin, timeout=120)
    except OutcomeUnknown:
        return
    finally:
        emulator.heal()
    assert (result.exit_code, result.text.strip()) == (0, str(len(data)))
    assert digest(emulator, env, "f") == hashlib.sha256(data).hexdigest()


def test_a_lost_last_acknowledgement_changes_nothing(faulty: Open, emulator: Emulator) -> None:
    """The end of stdin is sent again when its answer was lost, and the file has its bytes once."""
    env, data = faulty(), EVERY_BYTE * 20_000
    emulator.fail("TaskExecStdinWrite.eof", "drop_after", reset=True, times=2)
    assert env.exec("cat >f", stdin=data).exit_code == 0
    assert digest(emulator, env, "f") == hashlib.sha256(data).hexdigest()


@SLOW
def test_a_part_is_never_taken_for_the_whole(faulty: Open, emulator: Emulator) -> None:
    """When stdin cannot be delivered the command never sees its end, and the outcome is not known."""
    env = faulty()
    emulator.fail("TaskExecStdinWrite", "status", UNAVAILABLE, times=ALWAYS, skip=1)
    with pytest.raises(OutcomeUnknown):
        env.exec("cat >f; : >whole", stdin=bytes(9 << 20))
    emulator.heal()
    assert not env.files.exists("whole") and env.files.stat("f").size <= 4 << 20


# -- output and end -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("rpc", ["TaskExecStdioRead", "TaskExecWait", "TaskExecStart"])
def test_a_cut_call_goes_on_where_it_stopped(faulty: Open, emulator: Emulator, rpc: str, reset: Any) -> None:
    """Streams and waits that are cut are taken up again, and the command ran once."""
    env, data = faulty(), EVERY_BYTE * 8000
    kinds = {"TaskExecStdioRead": "abort", "TaskExecWait": "drop_during", "TaskExecStart": "drop_after"}
    value = {"TaskExecStdioRead": 700_001, "TaskExecWait": 0.05, "TaskExecStart": 0}
    emulator.fail(rpc, kinds[rpc], value[rpc], times=2, reset=reset)
    result = env.exec("echo ran >>log; tee /dev/stderr; exit 6", stdin=data)
    assert (result.exit_code, result.stdout, result.stderr) == (6, data, data)
    assert env.exec("cat log").text == "ran\n"


@pytest.mark.parametrize("status", [UNAVAILABLE, INTERNAL])
@pytest.mark.parametrize("rpc", ["TaskExecStart", "TaskExecStdinWrite", "TaskExecStdioRead", "TaskExecWait"])
def test_a_worker_that_is_busy_is_asked_again(faulty: Open, emulator: Emulator, rpc: str, status: int) -> None:
    """Errors that pass cost time, and nothing else."""
    env = faulty()
    emulator.fail(rpc, "status", status, times=3)
    result = env.exec("echo ran >>log; cat; exit 2", stdin=EVERY_BYTE)
    assert (result.exit_code, result.stdout) == (2, EVERY_BYTE)
    assert env.exec("cat log").text == "ran\n"


def test_a_throttled_worker_is_asked_when_it_says(faulty: Open, emulator: Emulator) -> None:
    """A worker that names a time to wait is asked again after it."""
    env = faulty()
    emulator.fail("TaskExecStart", "throttle", 0.2, times=2)
    assert env.exec("cat", stdin=EVERY_BYTE).stdout == EVERY_BYTE


def test_an_exit_code_that_is_never_told_is_in_the_streams(faulty: Open, emulator: Emulator) -> None:
    """The wait may fail for ever: the command's own marks tell its end."""
    env = faulty()
    emulator.fail("TaskExecWait", "status", UNAVAILABLE, times=ALWAYS)
    result = env.exec("echo out; exit 5", timeout=60)
    assert (result.exit_code, result.stdout) == (5, b"out\n")


@SLOW
@pytest.mark.parametrize("rpc", ["TaskExecStart", "TaskExecStdioRead"])
def test_a_worker_that_does_not_answer_is_no_result(faulty: Open, emulator: Emulator, rpc: str) -> None:
    """After the SDK has given up the outcome is not known, and the sandbox is left alone."""
    env = faulty()
    emulator.fail(rpc, "status", UNAVAILABLE, times=ALWAYS)
    with pytest.raises(OutcomeUnknown):
        env.exec("sleep 600", timeout=120)
    emulator.heal()
    assert env.exec("echo on").text == "on\n"


@pytest.mark.parametrize(("status", "error"), [(7, BackendUnavailable), (3, InvalidArgument), (5, EnvironmentGone)])
def test_a_refused_start_ran_nothing(faulty: Open, emulator: Emulator, status: int, error: type[Exception]) -> None:
    """What the worker refuses for certain is an error of its own, and the next command works."""
    env = faulty()
    emulator.fail("TaskExecStart", "status", status)
    with pytest.raises(error):
        env.exec("echo ran >>log")
    assert env.exec("cat log 2>/dev/null; :").text == ""


# -- tokens of the worker -----------------------------------------------------------------------------------------


def test_an_expired_token_is_renewed(emulator: Emulator, faulty: Open) -> None:
    """Commands go on when the worker's token has run out, before a command and in the middle of one."""
    emulator.switch(jwt_seconds=2.0)
    try:
        env = faulty()
        process = env.start("sleep 3; cat; echo on", stdin=iter([b"a", b"b"]))
        assert process.wait(60).stdout == b"abon\n"
        assert env.exec("cat", stdin=EVERY_BYTE).stdout == EVERY_BYTE
    finally:
        emulator.switch(jwt_seconds=3600.0)


def test_a_revoked_token_is_told(emulator: Emulator, faulty: Open) -> None:
    """A token that is worth nothing although it has not run out is denied access."""
    env = faulty()
    emulator.revoke()
    with pytest.raises(BackendUnavailable) as caught:
        env.exec("true")
    assert caught.value.reason == "denied"
