"""End marks, however the transport cuts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_env._marks import EndMark
from tests.unit.pieces import PIECES, cut

SECRET = "0123456789abcdef" * 2


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
