"""Commands that are cancelled at every moment of their way: nothing runs later, nothing is left."""

from __future__ import annotations

import time

import pytest

from hermes_env import (
    CommandCancelled,
    OutcomeUnknown,
)
from tests.emulators.vercel.client import Emulator
from tests.integration.cloud_tests import CancellationTests
from tests.integration.clouds import Open, cancelled, ident, pids, staged
from tests.waiting import until

OUTSIDE = ("kill", "commands", "extend", "stop", "destroy", "get")
"""Endpoints that no command needs that goes well."""


class TestCancellation(CancellationTests):
    """What every staged backend does."""

    upload = "write"
    dispatch = "run"
    erasure = "run"


@pytest.mark.parametrize("known", [True, False], ids=["one stream", "parts"])
def test_cancelled_during_the_upload_nothing_is_dispatched(faulty: Open, emulator: Emulator, known: bool) -> None:
    """A command that is cancelled while its stdin is uploaded is never dispatched, and its files are erased."""
    env = faulty()
    emulator.forget()
    emulator.fail("write", "hold_inside", 2000)
    data = bytes(range(256)) * (8 << 12)
    cancelled(env, emulator, "write", "echo ran >>log", stdin=data if known else iter([data]))
    assert all(entry.get("command", [""])[-1] == "hermes-env-" for entry in emulator.log() if "command" in entry)
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_a_dispatch_that_starts_late_never_runs(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that was cancelled before it was answered may start later: it finds the claim taken and runs nothing.

    The service starts it all the same, which is seen in its list of commands.
    """
    env = faulty()
    emulator.fail("run", "hold_before")
    cancelled(env, emulator, "run", "echo ran >>log; sleep 600", stdin=b"x")
    before = len(emulator.sandboxes()[ident(env)]["commands"])
    emulator.release()
    until(lambda: len(emulator.sandboxes()[ident(env)]["commands"]) > before)
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_every_dispatch_starts_late(faulty: Open, emulator: Emulator) -> None:
    """Where the service always starts commands late, one that is cancelled leaves nothing that runs, and others do."""
    env = faulty()
    emulator.switch(dispatch_seconds=1.0)
    process = env.start("sleep 600; echo late >>log")
    until(lambda: process.state == "dispatched")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert env.exec("echo next").text == "next\n"
    until(lambda: pids(emulator, env) == [])
    emulator.switch(dispatch_seconds=0.0)
    assert env.exec("cat log; :").text == ""
    until(lambda: staged(env) == [])


@pytest.mark.parametrize("scope", ["process", "group"])
@pytest.mark.parametrize("script", ["sleep 600", "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"])
def test_cancelled_while_it_runs_the_tree_is_gone(faulty: Open, emulator: Emulator, script: str, scope: str) -> None:
    """A killed command leaves no process and no file, and the sandbox goes on."""
    emulator.switch(kill_scope=scope)
    env = faulty()
    process = env.start(f": >up; {script}", stdin=b"secret" * 1000)
    until(lambda: env.exec("[ -e up ]").ok)
    emulator.forget()
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert not set(OUTSIDE) & emulator.counts(ident(env)).keys()
    assert env.exec("echo on").text == "on\n"


@pytest.mark.parametrize("kind", ["status", "drop_before"])
def test_where_the_kill_script_cannot_run_the_service_kills(faulty: Open, emulator: Emulator, kind: str) -> None:
    """A sandbox that does not run the kill script leaves the command to the service, which finds it by its id."""
    env = faulty()
    process = env.start(": >up; sleep 600")
    until(lambda: env.exec("[ -e up ]").ok)
    emulator.forget()
    emulator.fail("run", kind, 500)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    counts = emulator.counts(ident(env))
    assert counts["commands"] == 1 and counts["kill"] >= 1
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])


def test_a_service_that_does_not_answer_is_not_waited_for(faulty: Open, emulator: Emulator) -> None:
    """A kill whose requests get no answer is over within seconds, is not confirmed, and takes effect late."""
    env = faulty()
    process = env.start(": >up; sleep 600")
    until(lambda: env.exec("[ -e up ]").ok)
    for endpoint in ("run", "commands"):
        emulator.fail(endpoint, "hold_before", times=-1)
    begin = time.monotonic()
    process.kill()
    with pytest.raises((CommandCancelled, OutcomeUnknown)) as caught:
        process.wait(60)
    assert time.monotonic() - begin < 30
    assert caught.value.result.kill_unconfirmed is True
    emulator.heal()
    until(lambda: pids(emulator, env) == [])
    # What late requests made goes with a later command.
    until(lambda: env.exec("true").ok and not any(process._command.id in name for name in staged(env)))
