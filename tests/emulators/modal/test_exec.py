"""Commands: the SDK's own `Sandbox.exec` meets what the fact sheet says of the vendor."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import modal
import pytest
from modal import exception

from tests.waiting import until

if TYPE_CHECKING:
    from tests.emulators.modal.client import Emulator

Switched = Callable[..., None]
ANY_BYTES = bytes(range(256)) * 640


def on_this_machine(emulator: Emulator, box: modal.Sandbox, name: str) -> str:
    """A file in the directory of commands, as this machine sees it."""
    seen = emulator.sandboxes()[box.object_id]
    return os.path.join(f"{seen['root'].rstrip('/')}{seen['home']}", name)


def feed(process: Any, data: bytes, size: int = 1 << 20) -> None:
    """Write all of it in parts, and the end."""
    for begin in range(0, len(data), size):
        process.stdin.write(data[begin : begin + size])
        process.stdin.drain()
    process.stdin.write_eof()
    process.stdin.drain()


@pytest.mark.parametrize("size", [64 << 10, 4 << 20, 16 << 20])
def test_stdin_is_exact_in_parts_of_any_size(box: modal.Sandbox, size: int) -> None:
    """Up to the largest part that the SDK buffers."""
    data = os.urandom(20 << 20) if size > 1 << 20 else ANY_BYTES * 3
    process = box.exec("sha256sum", text=False)
    feed(process, data, size)
    assert process.stdout.read().split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert process.wait() == 0


def test_the_sdk_buffers_16_mib(box: modal.Sandbox) -> None:
    """One byte more is refused before anything is sent, and the buffer stays as it was."""
    process = box.exec("sh", "-c", "wc -c", text=False)
    process.stdin.write(bytes(16 << 20))
    with pytest.raises(BufferError):
        process.stdin.write(b"x")
    feed(process, b"")
    assert int(process.stdout.read()) == 16 << 20


def test_both_streams_and_the_code(box: modal.Sandbox) -> None:
    """Streams are apart and carry any byte."""
    process = box.exec("sh", "-c", r"printf 'o\0o'; printf 'e\377e' >&2; exit 42", text=False)
    assert (process.stdout.read(), process.stderr.read(), process.wait()) == (b"o\0o", b"e\xffe", 42)


def test_much_output_that_nobody_reads_yet(box: modal.Sandbox) -> None:
    """A command ends though nobody reads, and everything is read afterwards."""
    process = box.exec("head", "-c", str(8 << 20), "/dev/zero", text=False)
    assert process.wait() == 0
    assert process.stdout.read() == bytes(8 << 20)


def test_a_signal_is_128_and_more(box: modal.Sandbox) -> None:
    """As a shell counts."""
    assert box.exec("sh", "-c", "kill -9 $$").wait() == 137


def test_stdin_is_open_until_its_end(box: modal.Sandbox) -> None:
    """A command that reads waits for the end."""
    process = box.exec("cat", text=False)
    assert process.poll() is None
    feed(process, b"")
    assert process.wait() == 0


def test_stdin_of_a_command_that_has_ended_is_a_conflict(box: modal.Sandbox) -> None:
    """Also where it is blocked at the moment, and its output and code are still there."""
    process = box.exec("head", "-c", "10", text=False)
    with pytest.raises(exception.ConflictError):
        feed(process, bytes(16 << 20), 4 << 20)
    assert (process.stdout.read(), process.wait()) == (bytes(10), 0)


def test_a_write_that_nobody_reads_ends_with_the_command(box: modal.Sandbox) -> None:
    """Even where another process keeps the pipe open."""
    process = box.exec("sh", "-c", "sleep 600 & sleep 0.3", text=False)
    with pytest.raises(exception.ConflictError):
        feed(process, bytes(1 << 20))


def test_stdin_may_be_taken_before_it_is_read(
    client: modal.Client, app: modal.App, emulator: Emulator, switched: Switched
) -> None:
    """A switch: a write is answered though nobody reads, up to a limit, and every byte arrives after all."""
    switched(stdin_ahead=500_000)
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec("sh", "-c", "until [ -e go ]; do sleep 0.02; done; sha256sum", text=False)
    data = os.urandom(2_000_000)
    process.stdin.write(data[:500_000])
    process.stdin.drain()
    made.exec("touch", "go").wait()
    feed(process, data[500_000:], 700_000)
    assert process.stdout.read().split()[0].decode() == hashlib.sha256(data).hexdigest()
    deaf = made.exec("true")
    deaf.wait()
    with pytest.raises(exception.ConflictError):
        feed(deaf, b"abc")
    made.terminate()


def test_an_end_after_the_command(box: modal.Sandbox, emulator: Emulator, client: modal.Client, app: modal.App) -> None:
    """A switch says what an end of stdin meets that comes too late."""
    process = box.exec("true")
    process.wait()
    process.stdin.write_eof()
    with pytest.raises(exception.ConflictError):
        process.stdin.drain()
    emulator.switch(eof_after_exit="taken")
    try:
        other = modal.Sandbox.create(app=app, client=client)
    finally:
        emulator.switch(eof_after_exit="conflict")
    late = other.exec("true")
    late.wait()
    feed(late, b"")
    other.terminate()


def test_a_background_child_delays_the_end_of_output_and_not_the_code(box: modal.Sandbox) -> None:
    """The stream ends when nobody holds it."""
    process = box.exec("sh", "-c", "(until [ -e go ]; do sleep 0.02; done; echo late) & echo hi", text=False)
    assert process.wait() == 0
    box.exec("touch", "go").wait()
    assert process.stdout.read() == b"hi\nlate\n"


def test_output_may_end_with_the_command(client: modal.Client, app: modal.App, switched: Switched) -> None:
    """A switch: a child that holds the stream is not waited for."""
    switched(wait_for_pipe_end=False)
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec("sh", "-c", "sleep 600 & echo hi", text=False)
    assert process.stdout.read() == b"hi\n"
    made.terminate()


@pytest.mark.parametrize(("status", "code"), [("minus_one", -1), ("killed", 137)])
def test_a_command_over_its_time(
    client: modal.Client, app: modal.App, emulator: Emulator, switched: Switched, status: str, code: int
) -> None:
    """It is killed with its group; what it wrote is kept."""
    switched(timeout_status=status)
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec("sh", "-c", "echo partial; sleep 600 & sleep 601", timeout=1, text=False)
    assert process.stdout.read() == b"partial\n"
    until(lambda: list(emulator.sandboxes()[made.object_id]["execs"].values())[-1]["status"] is not None)
    seen = list(emulator.sandboxes()[made.object_id]["execs"].values())[-1]["status"]
    assert seen == ["code", -1] if code == -1 else ["signal", 9]
    assert process.wait() == -1  # the SDK does not ask any more after its own deadline
    until(lambda: len(emulator.sandboxes()[made.object_id]["pids"]) == 1)
    made.terminate()


def test_characters_pass_the_sdk_that_bytes_do_not(box: modal.Sandbox) -> None:
    """The SDK counts 65,536 characters; the worker counts bytes."""
    with pytest.raises(exception.InvalidError, match="ARG_MAX"):
        box.exec("echo", "x" * 65533)
    with pytest.raises(exception.InvalidError, match="too long"):
        box.exec("echo", "中" * 65532)
    assert box.exec("echo", "中" * 40_000).stdout.read() == "中" * 40_000 + "\n"


def test_what_cannot_be_started_is_refused(box: modal.Sandbox) -> None:
    """With the reason, at once and not as an error of transport."""
    for argv, workdir, said in (
        (["/no/such"], None, "command"),
        (["/etc"], None, "command"),
        (["true", "a\0b"], None, "NUL"),
        (["true"], "/no/such", "workdir"),
    ):
        with pytest.raises(exception.InvalidError, match=said):
            box.exec(*argv, workdir=workdir)


@pytest.mark.parametrize(("program", "code"), [("/no/such", 127), ("/etc", 126)])
def test_what_cannot_be_started_may_have_a_code(
    client: modal.Client, app: modal.App, switched: Switched, program: str, code: int
) -> None:
    """A switch: the call succeeds, the command fails."""
    switched(start_failure="code")
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec(program)
    assert (process.wait(), process.stdout.read()) == (code, "")
    made.terminate()


def test_directory_and_variables(box: modal.Sandbox, emulator: Emulator) -> None:
    """Of the command, over those of the sandbox."""
    process = box.exec("sh", "-c", 'pwd; echo "$A"; echo "$MODAL_SANDBOX_ID"', workdir="/usr", env={"A": "x\ny"})
    assert process.stdout.read() == f"/usr\nx\ny\n{box.object_id}\n"
    assert box.exec("pwd").stdout.read() == f"{emulator.sandboxes()[box.object_id]['home']}\n"


def test_variables_of_secrets(box: modal.Sandbox, emulator: Emulator) -> None:
    """They arrive, and are in no log of the emulator."""
    secret = modal.Secret.from_dict({"TOKEN": "hush"})
    assert box.exec("sh", "-c", "echo $TOKEN", secrets=[secret]).stdout.read() == "hush\n"
    assert "hush" not in str(emulator.log()) + str(emulator.sandboxes())


def test_a_value_too_large_for_the_kernel(box: modal.Sandbox) -> None:
    """It is refused, and the sandbox works on."""
    with pytest.raises(exception.InvalidError, match="too long"):
        box.exec("true", env={"A": "x" * 140_000})
    assert box.exec("sh", "-c", "echo ${#A}", env={"A": "x" * 120_000}).stdout.read() == "120000\n"


def test_devnull_is_not_kept(box: modal.Sandbox) -> None:
    """Output that nobody wants."""
    process = box.exec("sh", "-c", "echo a; echo b >&2", stdout=modal.stream_type.StreamType.DEVNULL)
    assert (process.wait(), process.stderr.read()) == (0, "b\n")


def test_there_is_no_kill(box: modal.Sandbox) -> None:
    """The SDK has nothing to kill one command with: a second command must do it."""
    process = box.exec("sh", "-c", "echo $$; exec sleep 600")
    assert not hasattr(process, "kill")
    pid = next(iter(process.stdout)).strip()
    assert box.exec("kill", "-9", pid).wait() == 0
    assert process.wait() == 137


def test_a_command_goes_on_when_its_client_has_gone(box: modal.Sandbox, emulator: Emulator) -> None:
    """Nothing that a client does not do ends a command."""
    other = emulator.connect()
    attached = modal.Sandbox.from_id(box.object_id, client=other)
    attached.exec("sh", "-c", "until [ -e go ]; do sleep 0.02; done; touch ended")
    other.close()
    box.exec("touch", "go").wait()

    until(lambda: os.path.exists(on_this_machine(emulator, box, "ended")))


def test_many_commands_at_once(box: modal.Sandbox) -> None:
    """Each gets its own bytes."""
    processes = [box.exec("cat", text=False) for _ in range(16)]
    for number, process in enumerate(processes):
        feed(process, bytes([number]) * 100_000)
    for number, process in enumerate(processes):
        assert process.stdout.read() == bytes([number]) * 100_000


def test_a_connection_is_released_when_idle(
    client: modal.Client, app: modal.App, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK lets go of it while nobody reads, and goes on at the byte where it was."""
    monkeypatch.setenv("MODAL_SANDBOX_CHANNEL_IDLE_TIMEOUT", "0.1")
    made = modal.Sandbox.create(app=app, client=client)
    process = made.exec("seq", "1", "100000", text=False)
    parts = iter(process.stdout)
    seen = next(parts)
    opened = emulator.sandboxes()[made.object_id]["connections"]
    until(lambda: emulator.sandboxes()[made.object_id]["open_connections"] == 0)
    assert seen + b"".join(parts) == b"".join(b"%d\n" % one for one in range(1, 100_001))
    assert emulator.sandboxes()[made.object_id]["connections"] > opened
    made.terminate()


def test_calls_are_counted(box: modal.Sandbox, emulator: Emulator) -> None:
    """Each call by its name, with what it carried."""
    process = box.exec("cat", text=False)
    feed(process, b"abc")
    process.stdout.read()
    process.wait()
    expected = {"TaskExecStart": 1, "TaskExecStdinWrite": 2, "TaskExecStdioRead": 1, "TaskExecWait": 1}
    assert emulator.counts(box.object_id) == expected and emulator.round_trips(box.object_id) == 5
    log = emulator.log(box.object_id)
    assert log[0]["argv"] == ["cat"] and [entry["status"] for entry in log] == ["OK"] * 5
    assert [(entry["size"], entry.get("eof", False)) for entry in log[1:3]] == [(3, False), (0, True)]
