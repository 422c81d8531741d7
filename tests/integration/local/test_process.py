"""Commands in flight: live streams, waits, limits of the system, and many at once."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import (
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    InvalidArgument,
    OutcomeUnknown,
    Unsupported,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
from tests.integration.local.processes import run_client, started


def test_wait_that_runs_out_kills_nothing(env: BaseEnvironment) -> None:
    """`wait(timeout)` raises TimeoutError and the command goes on."""
    process = env.start("sleep 0.5; echo done")
    with pytest.raises(TimeoutError) as caught:
        process.wait(0.01)
    assert not isinstance(caught.value, CommandTimeout)
    assert process.wait(20).stdout == b"done\n"


def test_output_can_be_iterated_while_it_runs(env: BaseEnvironment) -> None:
    """Chunks arrive before the end, in order, and the result has them too."""
    process = env.start("echo one; read x; echo $x", live_stdin=True)
    chunks = iter(process)
    assert next(chunks) == ("stdout", b"one\n")
    process.write(b"two\n")
    process.close_stdin()
    assert b"".join(data for _, data in chunks) == b"two\n"
    assert process.wait(20).stdout == b"one\ntwo\n"


def test_live_stdin_carries_every_byte(env: BaseEnvironment) -> None:
    """Large live writes arrive exactly, with end-of-file when stdin is closed."""
    data = os.urandom(3_000_000)
    process = env.start("sha256sum", live_stdin=True)
    process.write(data[:1_000_000])
    process.write(b"")
    process.write(data[1_000_000:])
    process.close_stdin()
    assert process.wait(60).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_live_stdin_must_be_asked_for(local: BaseEnvironment) -> None:
    """Without live_stdin a write is refused, and so is giving both."""
    process = local.start("cat")
    with pytest.raises(Unsupported, match="live_stdin"):
        process.write(b"x")
    process.wait(20)
    with pytest.raises(InvalidArgument, match="stdin"):
        local.start("cat", stdin=b"x", live_stdin=True)


def test_write_after_the_end_is_a_broken_pipe(local: BaseEnvironment) -> None:
    """A command that ended takes nothing more."""
    process = local.start("true", live_stdin=True)
    process.wait(20)
    with pytest.raises(BrokenPipeError):
        process.write(b"x")


def test_blocked_live_write_ends_with_a_kill(local: BaseEnvironment) -> None:
    """A write that a command never reads returns when the command is killed."""
    process = local.start("sleep 300", live_stdin=True)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(process.write, b"x" * (4 << 20))
        started(process, 1)
        process.kill()
        with pytest.raises(BrokenPipeError):
            writing.result(20)


def test_a_slow_reader_holds_the_command_not_the_memory(local: BaseEnvironment) -> None:
    """A reader that stops reading makes the command wait, and can still kill it."""
    process = local.start("yes", output_limit=1000)
    chunks = iter(process)
    next(chunks)
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(20)


def test_ignored_sigchld_is_never_a_success() -> None:
    """Where the host ignores SIGCHLD the exit status is lost: the outcome is unknown, not 0."""
    client = run_client(
        """
        import hermes_env, signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        env = hermes_env.open_environment("local")
        try:
            print(env.exec("exit 7"))
        except hermes_env.OutcomeUnknown:
            print("unknown")
        env.close()
        """
    )
    assert client.stdout is not None
    with client, client.stdout:
        assert client.stdout.read() == b"unknown\n"
    assert issubclass(OutcomeUnknown, Exception)


def test_descriptors_that_run_out_are_named() -> None:
    """Without a free descriptor a command is refused with the remedy, nothing of it ran, and the others end well."""
    client = run_client(
        """
        import hermes_env, resource
        env = hermes_env.open_environment("local")
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        processes = [env.start("sleep 1; echo ok") for _ in range(40)]
        good = bad = 0
        for process in processes:
            try:
                good += process.wait().stdout == b"ok\\n"
            except hermes_env.BackendUnavailable as error:
                assert error.reason == "capacity" and "ulimit -n" in str(error), error
                assert process.state == "cancelled"
                bad += 1
        print(good + bad, bad > 0, env.exec("echo again").text, end="")
        env.close()
        """
    )
    assert client.stdout is not None
    with client, client.stdout:
        assert client.stdout.read() == b"40 True again\n"


@pytest.mark.slow
def test_many_commands_at_once(local: BaseEnvironment) -> None:
    """200 commands in flight, each with its own 64 KiB: all exact, at most 4 descriptors and 1 thread each."""
    payloads = [hashlib.sha256(b"%d" % i).digest() * 2048 for i in range(200)]
    threads = threading.active_count()
    fds = len(os.listdir("/proc/self/fd"))
    processes = [local.start("echo up; sleep 1; cat", stdin=data) for data in payloads]
    for process in processes:
        assert next(iter(process)) == ("stdout", b"up\n")
    assert threading.active_count() - threads <= 200
    assert len(os.listdir("/proc/self/fd")) - fds <= 4 * 200
    for process, data in zip(processes, payloads, strict=True):
        assert process.wait(60).stdout == b"up\n" + data
    until(lambda: threading.active_count() <= threads)
    assert len(os.listdir("/proc/self/fd")) == fds


def test_closing_stdin_waits_for_a_write(local: BaseEnvironment, tmp_path: Path) -> None:
    """A descriptor is never closed under a writer: the bytes would go into the next file that is opened."""
    process = local.start("sleep 0.5; sha256sum", live_stdin=True)
    data = b"SECRET" * 1_000_000
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(process.write, data)
        until(writing.running)
        time.sleep(0.1)
        closing = pool.submit(process.close_stdin)
        victims = [os.open(tmp_path / f"{number}", os.O_CREAT | os.O_RDWR) for number in range(5)]
        writing.result(60)
        closing.result(60)
    for fd in victims:
        assert os.fstat(fd).st_size == 0
        os.close(fd)
    assert process.wait(60).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("seconds", [2_200_000, 1e10, 1e30])
def test_long_timeouts_are_no_limit(env: BaseEnvironment, seconds: float) -> None:
    """Timeouts over what the system's waits take are kept, or are no limit at all."""
    assert env.exec("echo ok", timeout=seconds).stdout == b"ok\n"
    process = env.start("echo ok", timeout=seconds)
    assert process.wait(seconds).stdout == b"ok\n"


@pytest.mark.parametrize("timeout", [-1, float("nan"), "x"])
def test_a_wait_of_no_time_is_refused(local: BaseEnvironment, timeout: float) -> None:
    """`wait` takes seconds."""
    process = local.start("true")
    with pytest.raises(InvalidArgument, match="timeout"):
        process.wait(timeout)
    process.wait(20)


def test_an_iterable_of_nothing_is_given_up_with_the_command(env: BaseEnvironment) -> None:
    """An iterable that gives empty chunks for ever is not drawn from when the command has ended."""
    draws = 0

    def nothing() -> Iterator[bytes]:
        nonlocal draws
        while True:
            draws += 1
            yield b""

    assert env.exec("exit 3", stdin=nothing()).exit_code == 3
    settled = draws
    env.exec("sleep 0.2")
    assert draws <= settled + 1


@pytest.mark.parametrize("data", [None, "text", 5])
def test_live_writes_take_bytes_only(local: BaseEnvironment, data: object) -> None:
    """Anything else than bytes is refused, and is no end of stdin; a buffer with gaps is written whole."""
    process = local.start("cat", live_stdin=True)
    with pytest.raises(InvalidArgument, match="data"):
        process.write(data)  # type: ignore[arg-type]
    process.write(memoryview(b"a-b-c-")[::2])
    process.close_stdin()
    assert process.wait(20).stdout == b"abc"
