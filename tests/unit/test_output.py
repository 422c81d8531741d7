"""Bounded collectors of output, against a model that keeps everything."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_env._output import BoundedBuffer, LiveOutput


def expected(data: bytes, limit: int) -> bytes:
    """All of it up to the limit, else its first half and its last half."""
    if len(data) <= limit:
        return data
    half = limit // 2
    return data[:half] + data[len(data) - (limit - half) :]


@settings(max_examples=400, deadline=None)
@given(limit=st.integers(0, 40), chunks=st.lists(st.binary(max_size=30), max_size=12))
def test_the_buffer_equals_its_model_after_every_chunk(limit: int, chunks: list[bytes]) -> None:
    """However output is cut into chunks, both halves and the total are exact at every moment."""
    buffer, everything = BoundedBuffer(limit), b""
    for chunk in chunks:
        buffer.write(chunk)
        everything += chunk
        assert buffer.getvalue() == expected(everything, limit)
        assert buffer.total == len(everything)
        assert buffer.opening == everything[:4096]


@settings(max_examples=30, deadline=None)
@given(limit=st.sampled_from([0, 1, 4095, 8192, 100_001]), sizes=st.lists(st.integers(0, 70_000), max_size=8))
def test_the_buffer_equals_its_model_on_large_chunks(limit: int, sizes: list[int]) -> None:
    """The same with chunks of the size that pipes give, past the opening."""
    buffer, everything = BoundedBuffer(limit), b""
    for number, size in enumerate(sizes):
        chunk = bytes((number + position * 7) % 251 for position in range(size))
        buffer.write(chunk)
        everything += chunk
    assert buffer.getvalue() == expected(everything, limit)
    assert buffer.opening == everything[:4096]


def test_live_output_comes_in_order_and_ends() -> None:
    """A reader gets every chunk with its stream, in the order of arrival, until the end."""
    live = LiveOutput(1 << 20)
    sent = [("stdout", b"a"), ("stderr", b"b"), ("stdout", b"c")]
    for stream, data in sent:
        live.put(stream, data)  # type: ignore[arg-type]
    live.close()
    assert list(live) == sent


def test_live_output_keeps_the_newest_until_someone_reads() -> None:
    """Without a reader at most `limit` bytes wait, and nobody blocks."""
    live = LiveOutput(2)
    for letter in (b"a", b"b", b"c"):
        live.put("stdout", letter)
    live.close()
    assert b"".join(data for _, data in live) == b"bc"


def test_a_slow_reader_makes_the_writer_wait_until_it_is_released() -> None:
    """Behind by more than the backlog the writer waits; a kill lets it go on."""
    live = LiveOutput(64 << 20)
    live.put("stdout", b"first")
    reader = iter(live)
    next(reader)
    blocked = threading.Thread(target=live.put, args=("stdout", bytes(5 << 20)))
    blocked.start()
    blocked.join(0.2)
    assert blocked.is_alive()
    live.release()
    blocked.join(30)
    assert not blocked.is_alive()
    live.close()
    assert sum(len(data) for _, data in reader) == 5 << 20
