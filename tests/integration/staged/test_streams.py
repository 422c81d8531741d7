"""Payload mode over an SDK that streams: the pipe dispatcher serves it, and kills by a second command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_env import CommandCancelled, CommandTimeout, OutcomeUnknown, open_environment
from tests.backends.streams import StreamEnvironment
from tests.processes import marked
from tests.waiting import until

PATIENCE = 30.0


@pytest.fixture
def env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    """A streaming environment; commands run in `tmp_path`."""
    opened = open_environment("tests.backends.streams:StreamEnvironment", root=str(tmp_path), cwd=str(tmp_path))
    assert isinstance(opened, StreamEnvironment)
    with opened:
        yield opened
    opened.sdk.faults.release()


@pytest.mark.parametrize("size", [0, 1, 65_537, 3 << 20])
def test_bytes_go_in_and_come_out(env: StreamEnvironment, size: int) -> None:
    """Every byte value arrives and comes back, in chunks, with both streams apart."""
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    result = env.exec("tee /dev/fd/2; exit 4", stdin=data)
    assert (result.stdout, result.stderr, result.exit_code) == (data, data, 4)


def test_long_scripts_and_odd_arguments(env: StreamEnvironment) -> None:
    """What is over the service's limit of a command line, or not UTF-8, travels on stdin."""
    assert env.exec("cat #" + "x" * 100_000, stdin=b"abc").stdout == b"abc"
    assert env.exec(["printf", "%s", "é\udcff"]).stdout == b"\xc3\xa9\xff"


def test_live_stdin(env: StreamEnvironment) -> None:
    """Live stdin is answered while the command runs."""
    process = env.start("while read -r line; do echo got $line; done; exit 6", live_stdin=True)
    process.write(b"one\n")
    assert next(iter(process)) == ("stdout", b"got one\n")
    process.close_stdin()
    assert process.wait(PATIENCE).exit_code == 6


def test_kill_without_a_kill_call(env: StreamEnvironment, tmp_path: Path) -> None:
    """A kill ends the tree though the SDK has no call for it, and the next command works."""
    process = env.start("touch started; setsid sleep 600 & sleep 600")
    until((tmp_path / "started").exists)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(PATIENCE)
    assert not caught.value.result.kill_unconfirmed
    assert env.exec("true").ok


def test_deadline(env: StreamEnvironment) -> None:
    """A deadline is ours: the SDK knows none."""
    with pytest.raises(CommandTimeout) as caught:
        env.exec("echo before; sleep 600", timeout=2.0)
    assert caught.value.result.stdout in (b"before\n", b"")


@pytest.mark.parametrize("step", ["exec", "wait"])
def test_lost_link_is_an_unknown_outcome(env: StreamEnvironment, tmp_path: Path, step: str) -> None:
    """When the SDK fails after the command was sent, the outcome is unknown and the command is not sent again."""
    env.sdk.faults.arm(step, "error_after", match="" if step == "wait" else "ran")
    with pytest.raises(OutcomeUnknown):
        env.exec("echo x >>ran")
    assert env.exec("cat ran").stdout in (b"x\n", b"")
    assert env.sdk.faults.count("exec", "echo x >>ran") == 1


def test_broken_stream_keeps_the_output(env: StreamEnvironment) -> None:
    """A stream that breaks in the middle ends in an unknown outcome with the output so far."""
    process = env.start("echo before; read x", live_stdin=True)
    assert next(iter(process)) == ("stdout", b"before\n")
    env.sdk.faults.arm("wait", "error_before")
    process.close_stdin()
    with pytest.raises(OutcomeUnknown) as caught:
        process.wait(PATIENCE)
    assert caught.value.result.stdout == b"before\n"


def test_failing_stdin_kills(env: StreamEnvironment, tmp_path: Path) -> None:
    """When the caller's iterable raises, the command is killed: it must not take a part of its input for all."""

    def chunks() -> Iterator[bytes]:
        yield b"part"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        env.exec("cat >copy && touch complete", stdin=chunks())
    assert not (tmp_path / "complete").exists()


def test_launch_that_arrives_after_the_kill(env: StreamEnvironment, tmp_path: Path) -> None:
    """A launch that hangs while its command is killed is killed when it arrives at last."""
    fault = env.sdk.faults.arm("exec", "delay", match="sleep 601")
    process = env.start("sleep 601; touch complete")
    assert fault.reached.wait(PATIENCE)
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(PATIENCE)
    fault.gate.set()
    assert fault.landed.wait(PATIENCE)
    until(lambda: not marked(process.id), PATIENCE, "the late command runs on")
    assert not (tmp_path / "complete").exists()
