"""Frames and end marks of the docker backend, however the connection cuts them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from hermes_env_docker._frames import EndMark, FrameReader

SECRET = "0123456789abcdef" * 2
PIECES = st.lists(st.integers(1, 9000), min_size=1, max_size=30)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The data in pieces of these sizes, over and over."""
    pieces, at, index = [], 0, 0
    while at < len(data):
        pieces.append(data[at : at + sizes[index % len(sizes)]])
        at += len(pieces[-1])
        index += 1
    return pieces


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.binary(max_size=6000)), max_size=12), PIECES, st.integers(0, 7)
)
def test_frames_come_out_whole_and_in_order(frames: list[tuple[int, bytes]], sizes: list[int], lost: int) -> None:
    """Every byte of every frame comes out once, in order; a stream cut inside a frame is torn."""
    sent = b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in frames)
    kept = sent[: len(sent) - lost]
    early, *rest = cut(kept, sizes) or [b""]
    reader, got = FrameReader(early), list[tuple[int, bytes]]()
    got.extend(reader.frames())
    for piece in rest:
        room = reader.free()
        room[: len(piece)] = piece
        reader.filled(len(piece))
        got.extend(reader.frames())
    for stream in (1, 2, 3):
        expected = b"".join(data for number, data in frames if number == stream)
        assert expected.startswith(b"".join(data for number, data in got if number == stream))
        if not lost:
            assert expected == b"".join(data for number, data in got if number == stream)
    assert reader.torn == (len(kept) != len(sent) and kept not in _whole_prefixes(frames))


def _whole_prefixes(frames: list[tuple[int, bytes]]) -> list[bytes]:
    prefixes = [b""]
    for stream, data in frames:
        prefixes.append(prefixes[-1] + struct.pack(">BxxxL", stream, len(data)) + data)
    return prefixes


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 255), PIECES)
def test_end_mark_is_taken_out(before: bytes, after: bytes, code: int, sizes: list[int]) -> None:
    """What comes before and after the mark is untouched, and the mark's code is found."""
    mark, got = EndMark(SECRET), b""
    small = [size % 40 + 1 for size in sizes]
    for piece in cut(before + b"\x1e" + SECRET.encode() + b" %d\n" % code + after, small):
        got += mark.feed(piece)
    assert (got + mark.rest(), mark.status) == (before + after, code)


@given(st.integers(0, 34), PIECES)
def test_half_a_mark_is_output(length: int, sizes: list[int]) -> None:
    """A stream that ends inside what looks like a mark keeps those bytes, and has no status."""
    data = b"text" + (b"\x1e" + SECRET.encode() + b" ")[:length]
    mark, got = EndMark(SECRET), b""
    for piece in cut(data, [size % 40 + 1 for size in sizes]):
        got += mark.feed(piece)
    assert (got + mark.rest(), mark.status) == (data, None)
