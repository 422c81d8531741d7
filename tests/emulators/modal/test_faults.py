"""Faults: what the SDK makes of each, so that a backend's own tests know what they stand on."""

from __future__ import annotations

import hashlib
import os
import random
import time
import urllib.error
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import modal
import pytest
from grpclib import Status
from modal import exception

from tests.emulators.modal.test_exec import feed, on_this_machine
from tests.slow import slow
from tests.waiting import until

if TYPE_CHECKING:
    from tests.emulators.modal.client import Emulator

Switched = Callable[..., None]
UNAVAILABLE = Status.UNAVAILABLE.value
PIPE = 65536
"""What a pipe holds that nobody reads (pipe(7))."""
SLOW = slow("the SDK gives up after ten seconds")


def digest(data: bytes) -> str:
    """As `sha256sum` writes it."""
    return hashlib.sha256(data).hexdigest()


def echoed(box: modal.Sandbox, data: bytes, size: int) -> tuple[bytes, bytes, int]:
    """Feed a command; what it wrote of each stream, and its code."""
    process = box.exec("sh", "-c", "tee copy; echo err >&2; exit 7", text=False)
    feed(process, data, size)
    return process.stdout.read(), process.stderr.read(), process.wait()


def copy_of(emulator: Emulator, box: modal.Sandbox) -> bytes:
    """What the command put into its file, read by this machine."""
    with open(on_this_machine(emulator, box, "copy"), "rb") as file:
        return file.read()


def taken(emulator: Emulator, box: modal.Sandbox) -> int:
    """Bytes of stdin that the last command's pipe has taken."""
    return int(list(emulator.sandboxes()[box.object_id]["execs"].values())[-1]["stdin"])


@pytest.mark.parametrize("rpc", ["TaskExecStart", "TaskExecStdinWrite", "TaskExecStdioRead", "TaskExecWait"])
def test_unavailable_for_a_while(box: modal.Sandbox, emulator: Emulator, rpc: str) -> None:
    """The SDK calls again, and everything is as if nothing had been."""
    data = os.urandom(200_000)
    emulator.fail(rpc, "status", UNAVAILABLE, times=2, sandbox=box.object_id)
    output, errors, code = echoed(box, data, 100_000)
    assert (digest(output), errors, code) == (digest(data), b"err\n", 7)
    assert digest(copy_of(emulator, box)) == digest(data)
    assert [entry["status"] for entry in emulator.log(box.object_id)].count("UNAVAILABLE") == 2


@SLOW
def test_unavailable_for_good(box: modal.Sandbox, emulator: Emulator) -> None:
    """After eleven calls it is an error, and the command still waits for its stdin."""
    process = box.exec("cat", text=False)
    emulator.fail("TaskExecStdinWrite", "status", UNAVAILABLE, times=-1, sandbox=box.object_id)
    with pytest.raises(exception.ServiceError):
        feed(process, b"abc")
    assert emulator.counts(box.object_id)["TaskExecStdinWrite"] == 11
    emulator.heal()
    process.stdin.write_eof()
    process.stdin.drain()
    assert process.stdout.read() == b"abc"


@pytest.mark.parametrize("kind", ["abort", "abort_request", "drop_before", "drop_after"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_lost_during_stdin(box: modal.Sandbox, emulator: Emulator, kind: str, reset: bool) -> None:
    """Before, inside and after a write: every byte arrives once."""
    data = os.urandom(3_000_000)
    for _ in range(3):
        emulator.fail(
            "TaskExecStdinWrite",
            kind,
            random.randrange(1, 900_000),
            skip=random.randrange(2),
            reset=reset,
            sandbox=box.object_id,
        )
    output, errors, code = echoed(box, data, 1_000_000)
    assert (digest(output), errors, code) == (digest(data), b"err\n", 7)
    assert digest(copy_of(emulator, box)) == digest(data)
    assert "dropped" in {entry["status"] for entry in emulator.log(box.object_id)}


@pytest.mark.parametrize("lost", ["answer", "connection"])
def test_a_connection_lost_during_a_write_that_is_blocked(box: modal.Sandbox, emulator: Emulator, lost: str) -> None:
    """What the pipe took is not sent again, whether the first write goes on behind the second or ends with its link."""
    data = os.urandom(1_000_000)
    process = box.exec("sh", "-c", "until [ -e go ]; do sleep 0.02; done; sha256sum", text=False)
    if lost == "answer":
        emulator.fail("TaskExecStdinWrite", "drop_during", 0.1, sandbox=box.object_id)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(feed, process, data)
        until(lambda: taken(emulator, box) == PIPE)
        if lost == "answer":
            until(lambda: emulator.counts(box.object_id)["TaskExecStdinWrite"] == 2)
        else:
            emulator.fail("TaskExecPoll", "drop_before", sandbox=box.object_id)
        assert process.poll() is None
        assert taken(emulator, box) == PIPE
        assert box.exec("touch", "go").wait() == 0
        written.result()
    assert process.stdout.read().split()[0].decode() == digest(data)
    assert "dropped" in {entry["status"] for entry in emulator.log(box.object_id)}


def test_a_server_that_counts_late_makes_a_wrong_file(
    client: modal.Client, app: modal.App, emulator: Emulator, switched: Switched
) -> None:
    """The SDK reports success on it: only who compares the bytes can know."""
    switched(stdin_counted="answered")
    made = modal.Sandbox.create(app=app, client=client)
    data = os.urandom(300_000)
    emulator.fail("TaskExecStdinWrite", "abort", 100_000, sandbox=made.object_id)
    assert echoed(made, data, 300_000)[2] == 7
    assert copy_of(emulator, made) == data[:100_000] + data
    emulator.heal()
    made.terminate()


def test_the_last_acknowledgement_is_lost(box: modal.Sandbox, emulator: Emulator) -> None:
    """The end of stdin comes again after the command has gone, and is no error."""
    data = os.urandom(100_000)
    emulator.fail("TaskExecStdinWrite.eof", "drop_after", times=2, sandbox=box.object_id)
    process = box.exec("sha256sum", text=False)
    process.stdin.write(data)
    process.stdin.write_eof()
    process.stdin.drain()
    assert process.stdout.read().split()[0].decode() == digest(data)
    assert [entry["status"] for entry in emulator.log(box.object_id) if entry.get("eof")] == [
        "dropped",
        "dropped",
        "OK",
    ]


def test_a_start_whose_answer_is_lost_runs_once(box: modal.Sandbox, emulator: Emulator) -> None:
    """The id of the command makes the second call the same one."""
    for kind in ("drop_after", "drop_before", "drop_during"):
        emulator.fail("TaskExecStart", kind, sandbox=box.object_id)
        box.exec("sh", "-c", "echo ran >> log").wait()
    assert box.exec("grep", "-c", "ran", "log").stdout.read() == "3\n"


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_lost_during_output(box: modal.Sandbox, emulator: Emulator, reset: bool) -> None:
    """It goes on at the byte where it broke."""
    for cut in (0, 1, 70_000, 999_999):
        emulator.fail("TaskExecStdioRead", "abort", cut, reset=reset, sandbox=box.object_id)
        process = box.exec("sh", "-c", "seq 1 300000", text=False)
        assert digest(process.stdout.read()) == digest(b"".join(b"%d\n" % one for one in range(1, 300001)))
        assert process.wait() == 0


def test_a_connection_lost_while_there_is_no_output(box: modal.Sandbox, emulator: Emulator) -> None:
    """The stream is opened again, and waits on."""
    emulator.fail("TaskExecStdioRead", "drop_during", 0.05, sandbox=box.object_id)
    process = box.exec("sh", "-c", "until [ -e go ]; do sleep 0.02; done; echo hi")
    with ThreadPoolExecutor(1) as pool:
        output = pool.submit(process.stdout.read)
        until(lambda: emulator.counts(box.object_id).get("TaskExecStdioRead") == 2)
        box.exec("touch", "go").wait()
        assert output.result() == "hi\n"


def test_a_connection_lost_during_a_wait(box: modal.Sandbox, emulator: Emulator) -> None:
    """The code is asked for again."""
    emulator.fail("TaskExecWait", "drop_during", 0.05, sandbox=box.object_id)
    process = box.exec("sh", "-c", "sleep 0.5; exit 9")
    assert process.wait() == 9
    assert emulator.counts(box.object_id)["TaskExecWait"] == 2


def test_the_sandbox_goes_during_stdin(box: modal.Sandbox, emulator: Emulator) -> None:
    """The write is refused as one to a task that is not there."""
    process = box.exec("cat", text=False)
    emulator.fail("TaskExecStdinWrite", "sandbox_gone", skip=1, sandbox=box.object_id)
    with pytest.raises(exception.NotFoundError):
        feed(process, bytes(300_000), 100_000)
    for ask in (process.stdout.read, process.poll, process.wait):
        with pytest.raises(exception.NotFoundError):
            ask()


def test_a_sandbox_that_is_forgotten(box: modal.Sandbox, emulator: Emulator) -> None:
    """Nobody knows it any more."""
    emulator.vanish(box.object_id, "forgotten")
    with pytest.raises(exception.NotFoundError):
        modal.Sandbox.from_id(box.object_id, client=box.client)
    with pytest.raises(exception.NotFoundError):
        box.exec("true")
    with pytest.raises(exception.NotFoundError):
        box.terminate()


@SLOW
def test_the_worker_goes_during_a_command(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """Reading and polling give up with the builtin error; the control plane knows nothing of it."""
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec("sleep", "600", text=False)
    emulator.vanish(made.object_id, "worker")
    with pytest.raises(ConnectionError) as caught:
        process.poll()
    assert not isinstance(caught.value, modal.Error)
    with pytest.raises(ConnectionError):
        process.stdout.read()
    assert made.poll() is None and emulator.sandboxes()[made.object_id]["pids"] == []
    made.terminate()


def test_throttling(box: modal.Sandbox, emulator: Emulator) -> None:
    """With a time to try again the SDK waits; without one it is an error."""
    emulator.fail("TaskExecStart", "throttle", 0.3, times=2, sandbox=box.object_id)
    begin = time.monotonic()
    assert box.exec("echo", "hi").stdout.read() == "hi\n"
    assert time.monotonic() - begin >= 0.6
    emulator.fail("TaskExecStart", "status", Status.RESOURCE_EXHAUSTED.value, sandbox=box.object_id)
    with pytest.raises(exception.ResourceExhaustedError):
        box.exec("true")


def test_the_control_plane_throttles(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """Creation waits too."""
    emulator.fail("SandboxCreateV2", "throttle", 0.2)
    modal.Sandbox.create(app=app, client=client).terminate()


def test_a_token_that_expires_is_renewed(
    client: modal.Client, app: modal.App, emulator: Emulator, switched: Switched
) -> None:
    """The worker refuses it, the SDK fetches another, and the command runs once."""
    switched(jwt_seconds=1.0)
    made = modal.Sandbox.create(app=app, client=client)
    expired = time.time() + 1.1
    until(lambda: time.time() > expired)
    assert made.exec("sh", "-c", "echo ran >> log; cat log").stdout.read() == "ran\n"
    log = emulator.log(made.object_id)
    assert "UNAUTHENTICATED" in {entry["status"] for entry in log}
    assert emulator.counts(made.object_id)["SandboxGetCommandRouterAccess"] >= 1
    made.terminate()


def test_a_token_that_is_revoked(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """The SDK believes the time in it and asks for no other; a new handle has one."""
    made = modal.Sandbox.create(app=app, client=client)
    made.exec("true").wait()
    emulator.revoke()
    with pytest.raises(exception.AuthError):
        made.exec("true")
    again = modal.Sandbox.from_id(made.object_id, client=client)
    assert again.exec("echo", "hi").stdout.read() == "hi\n"
    again.terminate()


@pytest.mark.parametrize(("idempotent", "number"), [(True, 1), (False, 2)])
def test_a_creation_whose_answer_is_lost(
    client: modal.Client, app: modal.App, emulator: Emulator, switched: Switched, idempotent: bool, number: int
) -> None:
    """Whether the second call makes a second sandbox is a switch; the SDK knows of one."""
    switched(idempotent=idempotent)
    before = set(emulator.sandboxes())
    emulator.fail("SandboxCreateV2", "drop_after")
    made = modal.Sandbox.create(app=app, client=client)
    new = set(emulator.sandboxes()) - before
    assert made.object_id in new and len(new) == number
    for one in new:
        modal.Sandbox.from_id(one, client=client).terminate()


def test_a_worker_that_is_late(client: modal.Client, app: modal.App, switched: Switched) -> None:
    """The SDK waits for it."""
    switched(schedule_seconds=0.5)
    made = modal.Sandbox.create(app=app, client=client)
    assert made.exec("echo", "hi").stdout.read() == "hi\n"
    made.terminate()


def test_calls_can_be_held(box: modal.Sandbox, emulator: Emulator) -> None:
    """In the middle of a write and of output, until they are released."""
    process = box.exec("cat", text=False)
    emulator.fail("TaskExecStdinWrite", "hold_inside", 1000, sandbox=box.object_id)
    emulator.fail("TaskExecWait", "hold_after", sandbox=box.object_id)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(feed, process, bytes(5000))
        emulator.wait_held("TaskExecStdinWrite")
        assert taken(emulator, box) == 1000
        emulator.release()
        written.result()
        ended = pool.submit(process.wait)
        emulator.wait_held("TaskExecWait")
        assert not ended.done()
        emulator.release()
        assert (ended.result(), process.stdout.read()) == (0, bytes(5000))


def test_output_can_be_slow(box: modal.Sandbox, emulator: Emulator) -> None:
    """So many bytes a second."""
    emulator.fail("TaskExecStdioRead", "slow", 500_000, sandbox=box.object_id)
    begin = time.monotonic()
    assert len(box.exec("head", "-c", "300000", "/dev/zero", text=False).stdout.read()) == 300_000
    assert time.monotonic() - begin >= 0.5


def test_a_call_can_be_delayed(box: modal.Sandbox, emulator: Emulator) -> None:
    """It does its work all the same."""
    emulator.fail("TaskExecStart", "delay", 0.3, sandbox=box.object_id)
    begin = time.monotonic()
    assert box.exec("echo", "late").stdout.read() == "late\n"
    assert time.monotonic() - begin >= 0.3


def test_a_fault_that_is_not_known_is_refused(emulator: Emulator) -> None:
    """Rather than never met."""
    with pytest.raises(urllib.error.HTTPError):
        emulator.fail("TaskExecStart", "explode")


def test_what_is_not_emulated_says_so(box: modal.Sandbox) -> None:
    """As an error that no retry hides."""
    with pytest.raises(exception.UnimplementedError):
        box.snapshot_filesystem()
    with pytest.raises(exception.UnimplementedError):
        box.exec("true", pty=True)
