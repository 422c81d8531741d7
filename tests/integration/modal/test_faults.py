"""Faults between the SDK and the service: cut, repeated, refused, throttled, expired, gone."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    OutcomeUnknown,
    attach,
    open_environment,
    reap,
)
from tests.emulators.modal.client import Emulator
from tests.emulators.waiting import until
from tests.integration.clouds import Open
from tests.integration.modal.conftest import at

RUNS = 50 if os.environ.get("HERMES_ENV_SLOW") == "1" else 8
SLOW = pytest.mark.skipif(
    os.environ.get("HERMES_ENV_SLOW") != "1", reason="the SDK tries for 10 s: set HERMES_ENV_SLOW=1 to run it"
)
UNAVAILABLE, INTERNAL = 14, 13
ALL = -1
EVERY_BYTE = bytes(range(256))


def ident(env: BaseEnvironment) -> str:
    """Id of the sandbox of an environment."""
    return env.ref.partition("://")[2]


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
    emulator.fail("TaskExecStdinWrite", "status", UNAVAILABLE, times=ALL, skip=1)
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
    emulator.fail("TaskExecWait", "status", UNAVAILABLE, times=ALL)
    result = env.exec("echo out; exit 5", timeout=60)
    assert (result.exit_code, result.stdout) == (5, b"out\n")


@SLOW
@pytest.mark.parametrize("rpc", ["TaskExecStart", "TaskExecStdioRead"])
def test_a_worker_that_does_not_answer_is_no_result(faulty: Open, emulator: Emulator, rpc: str) -> None:
    """After the SDK has given up the outcome is not known, and the sandbox is left alone."""
    env = faulty()
    emulator.fail(rpc, "status", UNAVAILABLE, times=ALL)
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


# -- gone ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["terminated", "timeout", "idle_timeout"])
def test_a_sandbox_that_ends_under_a_command(faulty: Open, emulator: Emulator, state: str) -> None:
    """The outcome of a running command is not known, the next is refused, and closing is quiet."""
    env = faulty()
    process = env.start("echo out; sleep 600")
    assert next(iter(process)) == ("stdout", b"out\n")
    emulator.vanish(ident(env), state)
    with pytest.raises(OutcomeUnknown) as caught:
        process.wait(60)
    assert caught.value.result.stdout == b"out\n"
    assert not env.alive()
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    env.close()


@SLOW
def test_a_worker_that_is_gone_for_good(faulty: Open, emulator: Emulator) -> None:
    """Neither a command that runs nor a new one waits for ever, nor does a kill."""
    env = faulty()
    first, second = env.start("sleep 600"), env.start("sleep 600")
    until(lambda: first.state == second.state == "dispatched")
    emulator.vanish(ident(env), "worker")
    second.kill()
    with pytest.raises((CommandCancelled, OutcomeUnknown)):
        second.wait(60)
    with pytest.raises(OutcomeUnknown):
        first.wait(60)
    with pytest.raises(HermesEnvError):
        env.exec("true")


# -- cancellation -------------------------------------------------------------------------------------------------


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

    threads = [threading.Thread(target=one, args=(index * 0.01,)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: not any("sleep 600" in _command(pid) for pid in emulator.sandboxes()[ident(env)]["pids"]))


# -- creation and end ---------------------------------------------------------------------------------------------


def running(emulator: Emulator) -> set[str]:
    """Sandboxes that run."""
    return {name for name, box in emulator.sandboxes().items() if box["state"] == "running"}


@pytest.mark.parametrize(
    ("rpc", "fault", "error"),
    [
        ("AppGetOrCreate", {"kind": "status", "value": 16}, BackendUnavailable),
        ("AppGetOrCreate", {"kind": "status", "value": 7}, BackendUnavailable),
        ("ImageGetOrCreate", {"kind": "status", "value": 3}, InvalidArgument),
        ("SandboxCreateV2", {"kind": "status", "value": 5}, BackendUnavailable),
        ("SandboxCreateV2", {"kind": "status", "value": 3}, InvalidArgument),
        ("SandboxCreateV2", {"kind": "status", "value": 8}, BackendUnavailable),
        ("SandboxCreateV2", {"kind": "drop_after", "times": 4}, BackendUnavailable),
        ("TaskExecStart", {"kind": "status", "value": 7}, BackendUnavailable),
    ],
    ids=lambda value: str(value.get("value", value["kind"])) if isinstance(value, dict) else "",
)
def test_a_failed_creation_leaves_nothing(
    faulty: Open, emulator: Emulator, rpc: str, fault: dict[str, Any], error: type[Exception]
) -> None:
    """A creation that fails, also one whose answer was lost, raises one typed error and leaves no sandbox."""
    before = running(emulator)
    emulator.fail(rpc, **fault)
    with pytest.raises(error):
        faulty()
    emulator.heal()
    assert running(emulator) == before


def test_a_sandbox_that_starts_slowly_is_waited_for(faulty: Open, emulator: Emulator) -> None:
    """A sandbox whose worker is not there at once is open when it is, or is ended after the limit."""
    before = running(emulator)
    emulator.switch(schedule_seconds=2.0)
    try:
        env = faulty()
        assert env.exec("echo up").text == "up\n"
        env.close()
        emulator.switch(schedule_seconds=600.0)
        with pytest.raises(BackendUnavailable) as caught:
            faulty(open_timeout=1.5)
        assert caught.value.reason == "unreachable"
    finally:
        emulator.switch(schedule_seconds=0.0)
    assert running(emulator) == before


def test_no_room_for_another_sandbox(faulty: Open, emulator: Emulator) -> None:
    """A full service is named as that."""
    emulator.switch(max_sandboxes=len(running(emulator)) + 1)
    faulty()
    try:
        with pytest.raises(BackendUnavailable) as caught:
            faulty()
        assert caught.value.reason == "capacity"
    finally:
        emulator.switch(max_sandboxes=0)


def test_only_sandboxes_of_dead_clients_are_reaped(faulty: Open, emulator: Emulator) -> None:
    """The reaper ends what a killed client left, and nothing of a living one or of another app."""
    for stray in reap("modal"):
        assert stray not in running(emulator)
    mine, other = faulty(), faulty(app="other")
    program = (
        "import os\nfrom hermes_env import open_environment\n"
        "envs = [open_environment('modal') for _ in range(3)]\n"
        "print(*[env.ref for env in envs], flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **emulator.environ}, stdout=subprocess.PIPE, check=False
    )
    left = {ref.partition("://")[2] for ref in child.stdout.decode().split()}
    assert len(left) == 3 and left <= running(emulator)
    emulator.switch(page=2)
    assert set(reap("modal")) == left
    emulator.switch(page=50)
    assert not left & running(emulator) and {ident(mine), ident(other)} <= running(emulator)
    assert reap("modal") == [] and reap("modal", app="nobody-made-it") == []


def test_two_services_in_one_process() -> None:
    """Each environment has a client of its own: another address, or another token, is taken."""
    with Emulator() as one, Emulator() as two:
        envs = []
        for emulator in (one, two):
            with at(emulator):
                envs.append(open_environment("modal"))
        for emulator, env in zip((one, two), envs, strict=True):
            assert ident(env) in emulator.sandboxes() and env.exec("echo x").text == "x\n"
            env.close()


def test_a_deadline_while_the_start_hangs(faulty: Open, emulator: Emulator) -> None:
    """The deadline bounds a start that nobody answers, too."""
    env = faulty()
    emulator.fail("TaskExecStart", "hold_before")
    with pytest.raises(CommandTimeout):
        env.exec("true", timeout=0.5)
    emulator.release()
    assert env.exec("echo on").text == "on\n"


# -- what a sandbox is made from ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [None, "T4"], ids=["second plane", "first plane"])
def test_options_reach_the_service(faulty: Open, emulator: Emulator, gpu: str | None) -> None:
    """Volumes, secrets, directory and tags are those that were asked for, on both of Modal's control planes."""
    import modal

    client = emulator.connect()
    for name in ("things", "fixed"):
        modal.Volume.from_name(name, create_if_missing=True, client=client).hydrate()
    modal.Secret.objects.create("keys", {"API_KEY": "a b\nc"}, client=client, allow_existing=True)
    client.close()
    env = faulty(
        gpu=gpu, volumes=("things:/mnt/things", "fixed:/mnt/fixed:ro"), secrets=("keys",), workdir="/tmp",
        block_network=True, cpu=0.5, memory=512, region="us-east,us-west", tags={"team": "blue"},
    )  # fmt: skip
    assert env.exec('printf %s "$API_KEY"; pwd >&2').stdout == b"a b\nc"
    assert env.exec("pwd").text == "/tmp\n"
    env.files.write_bytes("/mnt/things/f", EVERY_BYTE)
    with pytest.raises(OSError, match="fixed"):
        env.files.write_bytes("/mnt/fixed/g", b"x")
    tags = emulator.sandboxes()[ident(env)]["tags"]
    assert tags["team"] == "blue" and "hermes_env.owner" in tags
    process = env.start("sleep 600")
    until(lambda: process.state == "dispatched")
    process.kill()
    ref = env.detach()
    with attach(ref) as joined:
        assert "hermes_env.owner" not in emulator.sandboxes()[ident(joined)]["tags"]
        assert joined.files.read_bytes("/mnt/things/f") == EVERY_BYTE
    emulator.vanish(ref.partition("://")[2], "terminated")


@pytest.mark.parametrize("option", [{"volumes": ("none:/x",)}, {"secrets": ("none",)}, {"image": "im-none"}])
def test_something_that_modal_does_not_have_is_named(faulty: Open, emulator: Emulator, option: dict[str, Any]) -> None:
    """A volume or secret that is not there keeps the sandbox from being made, and nothing is left."""
    before = running(emulator)
    if "image" in option:
        emulator.fail("ImageFromId", "status", 5)
    with pytest.raises(BackendUnavailable) as caught:
        faulty(**option)
    assert caught.value.reason == "denied" and running(emulator) == before


def test_doctor_knows_it(emulator: Emulator) -> None:
    """`hermes-env doctor modal` opens a sandbox, tells what is in it, and never shows the token."""
    argv = [sys.executable, "-m", "hermes_env", "doctor", "modal"]
    done = subprocess.run(argv, env={**os.environ, **emulator.environ}, stdout=subprocess.PIPE, check=False)
    said = done.stdout.decode()
    assert done.returncode == 0 and "unchanged" in said and "payload" in said
    assert emulator.token_secret not in said
    assert not running(emulator)
