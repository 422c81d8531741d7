"""From the creation of a sandbox to its end: what it is made from, refused, slow, reaped, gone."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    CommandCancelled,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    OutcomeUnknown,
    attach,
    open_environment,
    reap,
)
from tests.emulators.modal.client import Emulator
from tests.integration.clouds import Open, ident
from tests.integration.modal.conftest import at
from tests.integration.modal.sandboxes import EVERY_BYTE, SLOW, running
from tests.waiting import until

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


# -- creation and end ---------------------------------------------------------------------------------------------


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
