"""The Modal backend's stdin and the end of its channel, whatever the SDK tells first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_env import EndMarks, Launch, PayloadTooLarge
from hermes_env_modal import _channel, _environment, _stdin
from hermes_env_modal._channel import ExecChannel
from hermes_env_modal._pumps import Exit, Lost, Output, Pumps
from hermes_env_modal._stdin import FIRST, SLICE, Stdin, _Pace


class Drain:
    """Sends what was written as one message, as the SDK's `drain` does."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def aio(self) -> None:
        """Take the message, or fail."""
        await asyncio.sleep(0)
        self._writer.take()


class Writer:
    """The SDK's writer of stdin, as far as `Stdin` uses it."""

    def __init__(self, fail_at: int | None = None, error: Exception | None = None, times: int = 100) -> None:
        self.messages: list[tuple[bytes, bool]] = []
        self.drain = Drain(self)
        self._buffer, self._eof = bytearray(), False
        self._fail_at, self._error, self._times = fail_at, error, times
        self.failures = 0

    def write(self, data: memoryview) -> None:
        """Buffer bytes."""
        self._buffer += data

    def write_eof(self) -> None:
        """The next message is the last."""
        self._eof = True

    def take(self) -> None:
        """One message."""
        if self._error is not None and len(self.messages) == self._fail_at and self.failures < self._times:
            self.failures += 1
            raise self._error
        self.messages.append((bytes(self._buffer), self._eof))
        self._buffer.clear()


def run(writer: Writer, feed: Callable[[Stdin], None], *, alive: bool = False) -> list[BaseException]:
    """Send on a loop what a thread feeds; what was told to have failed."""
    failed: list[BaseException] = []

    async def answers(_: BaseException) -> bool:
        return alive

    async def work() -> None:
        stdin = Stdin(asyncio.get_running_loop(), answers, failed.append)
        feeder = threading.Thread(target=feed, args=(stdin,))
        feeder.start()
        await stdin.send(writer)
        await asyncio.to_thread(feeder.join)

    asyncio.run(work())
    return failed


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 1000, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE + 5]), max_size=6))
def test_every_byte_is_sent_once_in_order(sizes: list[int]) -> None:
    """Whatever the pieces, messages are at most a slice long, hold all bytes in order, and the last ends stdin."""
    pieces = [bytes([index + 1]) * size for index, size in enumerate(sizes)]

    def feed(stdin: Stdin) -> None:
        for piece in pieces:
            stdin.write(piece)
        stdin.close()

    assert run(writer := Writer(), feed) == []
    assert b"".join(data for data, _ in writer.messages) == b"".join(pieces)
    assert [eof for _, eof in writer.messages] == [False] * (len(writer.messages) - 1) + [True]
    assert all(len(data) <= SLICE for data, _ in writer.messages)


@pytest.mark.parametrize("data", [b"", b"all", bytes(FIRST)], ids=len)
def test_stdin_in_memory_is_one_message(data: bytes) -> None:
    """What fits into a message goes in one together with its end."""
    run(writer := Writer(), lambda stdin: stdin.feed(memoryview(data)))
    assert writer.messages == [(data, True)]


def test_messages_grow_where_that_pays() -> None:
    """Over a long way, where each costs the same, messages grow to their limit; over a short one they stay small."""
    far, near = _Pace(), _Pace()
    for _ in range(6):
        far.sent(far.size, 0.05)
        near.sent(near.size, near.size / 50e6)
    assert (far.size, near.size) == (SLICE, FIRST)
    far.sent(10, 9.0)
    assert far.size == SLICE


def test_a_caller_may_reuse_its_buffer() -> None:
    """What was written stays as it was when it was written."""
    data = bytearray(b"before")

    def feed(stdin: Stdin) -> None:
        stdin.write(memoryview(data))
        data[:] = b"after!"
        stdin.close()

    run(writer := Writer(), feed)
    assert b"".join(sent for sent, _ in writer.messages) == b"before"


def _conflict() -> Exception:
    from modal.exception import ConflictError

    return ConflictError("closed")


@pytest.mark.parametrize("closed", [True, False])
def test_after_a_failed_message_nothing_more_is_sent(closed: bool) -> None:
    """A command never sees the end of a part; a closed stdin is no failure, anything else is told."""
    refused: list[type[BaseException]] = []

    def feed(stdin: Stdin) -> None:
        try:
            for _ in range(40):
                stdin.write(b"x" * FIRST)
        except BrokenPipeError as error:
            refused.append(type(error))
        stdin.close()

    error = _conflict() if closed else ConnectionError("gone")
    failed = run(writer := Writer(1, error), feed)
    assert refused == [BrokenPipeError]
    assert [(len(data), eof) for data, eof in writer.messages] == [(FIRST, False)]
    assert failed == ([] if closed else [error])


def test_a_message_is_sent_again_while_the_worker_is_there() -> None:
    """A message that failed for good is sent from the same offset, and again a few times only."""
    writer = Writer(0, ConnectionError("gone"), times=2)
    assert run(writer, lambda stdin: stdin.feed(memoryview(b"all")), alive=True) == []
    assert writer.messages == [(b"all", True)]
    writer = Writer(0, ConnectionError("gone"))
    assert len(run(writer, lambda stdin: stdin.feed(memoryview(b"all")), alive=True)) == 1 and writer.failures == 3


# -- the end ------------------------------------------------------------------------------------------------------


class Silent:
    """A command of which the SDK never tells anything."""

    class _Never:
        def __aiter__(self) -> Silent._Never:
            return self

        async def __anext__(self) -> bytes:
            await asyncio.Event().wait()
            return b""

        async def aio(self) -> int:
            await asyncio.Event().wait()
            return 0

    stdout = stderr = wait = _Never()


def marked(status: int) -> tuple[EndMarks, bytes]:
    """Marks, and the text by which they end a stream."""
    marks = EndMarks()
    secret = marks.argv(Launch(":"))[4]
    return marks, b"\x1e%s %d\n" % (secret.encode(), status)


def end(events: Callable[[bytes], list[Output | Exit | Lost]], *, intact: bool = True, killed: bool = False) -> Any:
    """Exit code, held streams and stdout of a channel that gets these events."""
    marks, mark = marked(7)
    got = bytearray()

    async def work() -> Any:
        pumps = Pumps(Silent(), lambda: None, with_stdin=False)
        channel = ExecChannel(pumps, marks, with_stdin=False, intact=lambda: intact)
        channel.killed = killed
        for event in events(mark):
            pumps.events.put(event)
        try:
            await asyncio.to_thread(channel.pump, None, lambda _, data: got.extend(data), lambda: None)
            return channel.exit_status(), channel.held, bytes(got)
        finally:
            channel.abort()

    return asyncio.run(_settled(work()))


async def _settled(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    finally:
        await asyncio.sleep(0.01)


def out(data: bytes) -> Output:
    """Output on stdout."""
    return Output("stdout", data)


def err(data: bytes) -> Output:
    """Output on stderr."""
    return Output("stderr", data)


LOST = ConnectionError("gone")


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_channel, "_REST", 0.2)
    monkeypatch.setattr(_channel, "_ENDING", 0.2)
    monkeypatch.setattr(_channel, "_DRAIN", 0.1)


def test_the_marks_tell_the_end() -> None:
    """Both marks give the exit code, and the streams end with them."""
    assert end(lambda m: [out(b"a" + m), err(m), out(b""), err(b"")]) == (7, (), b"a")


def test_an_exit_code_does_not_cut_output_off() -> None:
    """Output that comes after the exit code is the command's."""
    assert end(lambda m: [Exit(7), out(b"a"), out(b"b" + m), err(m), out(b""), err(b"")]) == (7, (), b"ab")


@pytest.mark.parametrize("what", ["wait", "output", "stdin"])
def test_what_fails_after_the_end_does_not_matter(what: Any) -> None:
    """Once both streams are complete a lost link changes nothing."""
    assert end(lambda m: [out(b"a" + m), err(m), Lost(what, LOST), out(b""), err(b"")])[0] == 7


def test_streams_that_others_hold_are_named() -> None:
    """Streams that stay open after the marks are held by a child."""
    assert end(lambda m: [out(b"a" + m), err(m), Exit(7)]) == (7, ("stdout", "stderr"), b"a")
    assert end(lambda m: [out(b"a" + m), err(m), err(b"")]) == (7, ("stdout",), b"a")


def test_a_killed_command_has_no_marks() -> None:
    """Death by a signal is told by the service alone; streams may stay open."""
    assert end(lambda _: [out(b"a"), Exit(137), out(b""), err(b"")], killed=True) == (137, (), b"a")
    assert end(lambda _: [Exit(137)], killed=True)[0] == 137
    assert end(lambda _: [Exit(137)], intact=True)[0] == 137


@pytest.mark.parametrize(
    "events",
    [
        [Exit(0)],
        [Exit(-1), out(b""), err(b"")],
        [out(b""), err(b"")],
        [out(b"a"), out(b""), err(b""), Exit(0)],
        [Lost("output", LOST)],
        [Lost("wait", LOST)],
        [Lost("stdin", LOST)],
        [out(b""), err(b""), Lost("wait", LOST)],
        [Lost("wait", LOST), out(b""), err(b"")],
        [Lost("channel", LOST)],
    ],
)
def test_an_end_that_is_not_known_is_never_a_result(events: list[Output | Exit | Lost]) -> None:
    """Whatever is missing or lost, the channel says that the outcome is not known."""
    with pytest.raises(ConnectionError):
        end(lambda _: events)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_wait_that_failed_bounds_the_rest(monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    """Whenever it is told that the wait has failed, what is missing is waited for briefly."""
    monkeypatch.setattr(_channel, "_REST", 600.0)
    events: list[Output | Exit | Lost] = [out(b""), err(b"")]
    events.insert(late, Lost("wait", LOST))
    with pytest.raises(ConnectionError, match="gone"):
        end(lambda _: events)


def test_a_sandbox_that_ended_is_no_exit_code() -> None:
    """A death by signal that nobody here caused, in a sandbox that has ended, is no result of the command."""
    with pytest.raises(ConnectionError):
        end(lambda _: [Exit(137)], intact=False)


# -- arguments ----------------------------------------------------------------------------------------------------


def test_arguments_are_counted_in_bytes() -> None:
    """The limit counts UTF-8, as the service does, and not characters."""
    _environment._check_argv(["x" * 65_536])
    with pytest.raises(PayloadTooLarge, match="65537"):
        _environment._check_argv(["x" * 65_537])
    with pytest.raises(PayloadTooLarge, match="65538"):
        _environment._check_argv(["世" * 21_846])


def test_the_longest_script_fits() -> None:
    """A script of the declared length fits beside the wrapper."""
    limit = _environment.ModalEnvironment.capabilities.max_script_bytes
    assert limit is not None
    _environment._check_argv(EndMarks().argv(Launch("x" * limit), setup=_environment._NO_STDIN, one_group=True))


@pytest.mark.parametrize(("given", "told"), [(None, None), (0.5, 61), (10.0, 70), (86_400.0, None), (1e9, None)])
def test_the_service_gets_a_later_deadline(given: float | None, told: int | None) -> None:
    """The service's own limit is whole seconds, behind ours, and none where no sandbox lives so long."""
    assert _environment._backstop(given) == told


def test_a_slice_fits_into_the_buffer_of_the_sdk() -> None:
    """The SDK refuses more than 16 MiB at once."""
    from modal.io_streams import TASK_COMMAND_ROUTER_MAX_BUFFER_SIZE

    assert _stdin.SLICE <= TASK_COMMAND_ROUTER_MAX_BUFFER_SIZE


def test_only_the_loop_of_the_sdk_is_taken_for_it() -> None:
    """A future that was done already calls back here, where a loop of the caller's own may run."""
    from hermes_env_modal._session import _Caller

    async def here() -> Any:
        caller = _Caller()
        caller(None)
        return caller.loop()

    async def there(caller: _Caller) -> Any:
        caller(None)
        return asyncio.get_running_loop()

    assert asyncio.run(here()) is None
    caller, seen = _Caller(), list[Any]()
    thread = threading.Thread(target=lambda: seen.append(asyncio.run(there(caller))))
    thread.start()
    thread.join()
    assert caller.loop() is seen[0]
