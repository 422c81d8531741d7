"""Round trips, counted by the emulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes_env import BaseEnvironment
from tests.emulators.modal.client import Emulator
from tests.integration.clouds import Open
from tests.waiting import until

Work = Callable[[BaseEnvironment], object]
COMMAND = {"TaskExecStart": 1, "TaskExecStdioRead": 2, "TaskExecWait": 1}
FED = {**COMMAND, "TaskExecStdinWrite": 1}


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        (lambda env: env.exec("true"), COMMAND),
        (lambda env: env.exec("pwd", cwd="/", env={"A": "b"}), COMMAND),
        (lambda env: env.exec("cat", stdin=b"x" * 100_000), FED),
        (lambda env: env.exec("cat >/dev/null", stdin=b"x" * (1 << 20)), FED),
        (lambda env: env.exec("cat", stdin=b"x" * 100_000, env={"A": "\udcff"}), FED),
        (lambda env: env.exec(f": {'x' * 200_000}"), FED),
        (lambda env: env.files.write_bytes("f", b"x" * 100_000), FED),
        (lambda env: env.files.read_bytes("f"), COMMAND),
        (lambda env: env.files.stat("f"), COMMAND),
    ],
    ids=["exec", "cwd and env", "stdin", "1 MiB", "odd env", "long script", "write", "read", "stat"],
)
def test_what_a_call_costs(faulty: Open, emulator: Emulator, work: Work, wanted: dict[str, int]) -> None:
    """One start, two streams and one wait, which all run at once, and one message for stdin of up to 1 MiB."""
    env = faulty()
    env.files.write_bytes("f", b"warm")
    emulator.forget()
    work(env)
    assert emulator.counts() == wanted


@pytest.mark.parametrize("chunks", [False, True])
def test_large_stdin_goes_in_messages_of_one_to_four_mebibytes(faulty: Open, emulator: Emulator, chunks: bool) -> None:
    """As few as the way allows, whatever the pieces that the caller gives."""
    env, data = faulty(), b"x" * (9 << 20)
    emulator.forget()
    pieces = iter([data[at : at + 5000] for at in range(0, len(data), 5000)])
    env.exec("cat >/dev/null", stdin=pieces if chunks else data)
    counts = emulator.counts()
    assert 3 <= counts.pop("TaskExecStdinWrite") <= (900 if chunks else 9)
    assert counts == COMMAND


def test_waiting_asks_for_nothing(faulty: Open, emulator: Emulator) -> None:
    """A command that takes its time is waited for by the calls that began with it."""
    env = faulty()
    env.exec("true")
    emulator.forget()
    env.exec("sleep 3")
    assert emulator.counts() == COMMAND


def test_a_kill_is_one_command(faulty: Open, emulator: Emulator) -> None:
    """A kill is one command of ours beside the other."""
    env = faulty()
    process = env.start("sleep 600")
    until(lambda: process.state == "dispatched")
    emulator.forget()
    process.kill()
    assert emulator.counts()["TaskExecStart"] == 1


def test_opening_and_closing(faulty: Open, emulator: Emulator) -> None:
    """Opening is one call for each thing that the sandbox needs and one command, closing one call."""
    faulty().close()
    emulator.forget()
    env = faulty()
    assert {name: count for name, count in emulator.counts().items() if name != "TaskExecStdioRead"} == {
        "ClientHello": 1,
        "AppGetOrCreate": 1,
        "ImageGetOrCreate": 1,
        "AuthTokenGet": 1,
        "SandboxCreateV2": 1,
        "TaskExecStart": 1,
        "TaskExecWait": 1,
    }
    emulator.forget()
    env.close()
    assert emulator.counts() == {"SandboxTerminateV2": 1}
