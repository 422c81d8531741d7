"""Commands that are cancelled at every moment of their way: nothing runs later, nothing is left."""

from __future__ import annotations

import threading
import time

import pytest

from hermes_env import (
    CommandCancelled,
    CommandTimeout,
)
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open, ident, pids, staged
from tests.waiting import until

# -- cancellation -------------------------------------------------------------------------------------------------


def test_cancelled_during_the_upload_nothing_is_dispatched(faulty: Open, emulator: Emulator) -> None:
    """A command that is cancelled while its stdin is uploaded is never dispatched, and its files are erased."""
    env = faulty()
    emulator.forget()
    emulator.fail("upload", "hold_inside", 100_000)
    process = env.start("echo ran >>log", stdin=bytes(8 << 20))
    emulator.wait_held("upload")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert process.state == "cancelled" and "execute" not in emulator.counts(ident(env))
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_an_upload_that_arrives_late_is_erased(faulty: Open, emulator: Emulator) -> None:
    """A request that was held when its command was cancelled may still write the file: it does not stay."""
    env = faulty()
    emulator.fail("upload", "hold_before")
    process = env.start("echo ran >>log", stdin=b"secret" * 1000)
    emulator.wait_held("upload")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    emulator.heal()
    until(lambda: emulator.counts(ident(env)).get("remove", 0) >= 1)
    until(lambda: staged(env) == [])


def test_cancelled_while_the_dispatch_is_on_its_way_it_never_runs(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that arrives after the cancellation finds the claim taken."""
    env = faulty()
    emulator.fail("execute", "hold_before")
    process = env.start("echo ran >>log", stdin=b"x")
    emulator.wait_held("execute")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
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


def test_cancelled_while_the_answer_is_on_its_way(faulty: Open, emulator: Emulator) -> None:
    """A command that had ended when it was cancelled is over within seconds, whatever its lost answer said."""
    env = faulty()
    emulator.fail("execute", "hold_after")
    process = env.start("echo ran >>log")
    emulator.wait_held("execute")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    emulator.release()
    assert env.exec("cat log").text == "ran\n"


def test_a_deadline_during_a_stalled_upload(faulty: Open, emulator: Emulator) -> None:
    """The deadline of a command bounds the upload, too, and nothing is dispatched."""
    env = faulty()
    emulator.fail("upload", "hold_before")
    begin = time.monotonic()
    with pytest.raises(CommandTimeout):
        env.exec("true", stdin=b"x", timeout=0.5)
    assert time.monotonic() - begin < 20


def test_closing_ends_what_runs(faulty: Open, emulator: Emulator) -> None:
    """Closing kills running commands and deletes the sandbox; nothing of it is left."""
    env = faulty()
    name = ident(env)
    process = env.start("sleep 600")
    until(lambda: process.state == "dispatched")
    env.close()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert name not in emulator.sandboxes()


def test_many_cancellations_leave_nothing(faulty: Open, emulator: Emulator) -> None:
    """Commands cancelled at any moment leave neither files nor processes."""
    env = faulty()

    def one(delay: float) -> None:
        process = env.start("sleep 600", stdin=b"secret" * 5000)
        time.sleep(delay)
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(60)

    threads = [threading.Thread(target=one, args=(index * 0.01,)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
