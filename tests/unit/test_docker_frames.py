"""Frames of the docker backend, however the connection cuts them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from hermes_env_docker._frames import FrameReader
from tests.unit.pieces import PIECES, cut


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
