"""Commands that are cancelled at every moment of their way: nothing runs later, nothing is left."""

from __future__ import annotations

import pytest

from hermes_env import (
    CommandCancelled,
)
from tests.emulators.daytona.client import Emulator
from tests.integration.cloud_tests import CancellationTests
from tests.integration.clouds import Open, cancelled, ident, pids, staged
from tests.waiting import until


class TestCancellation(CancellationTests):
    """What every staged backend does."""

    upload = "upload"
    dispatch = "execute"
    erasure = "remove"


def test_cancelled_during_the_upload_nothing_is_dispatched(faulty: Open, emulator: Emulator) -> None:
    """A command that is cancelled while its stdin is uploaded is never dispatched, and its files are erased."""
    env = faulty()
    emulator.forget()
    emulator.fail("upload", "hold_inside", 100_000)
    cancelled(env, emulator, "upload", "echo ran >>log", stdin=bytes(8 << 20))
    assert "execute" not in emulator.counts(ident(env))
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_cancelled_while_the_dispatch_is_on_its_way_it_never_runs(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that arrives after the cancellation finds the claim taken."""
    env = faulty()
    emulator.fail("execute", "hold_before")
    cancelled(env, emulator, "execute", "echo ran >>log", stdin=b"x")
    emulator.release()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


@pytest.mark.parametrize("script", ["sleep 600", "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"])
def test_cancelled_while_it_runs_the_tree_is_gone(faulty: Open, emulator: Emulator, script: str) -> None:
    """A killed command leaves no process and no file, and the sandbox is not stopped."""
    env = faulty()
    process = env.start(f": >up; {script}", stdin=b"secret" * 1000)
    until(lambda: env.exec("[ -e up ]").ok)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert env.exec("echo on").text == "on\n"
    assert "change" not in emulator.counts(ident(env))
