"""Data cut into pieces, as connections do it."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = st.lists(st.integers(1, 9000), min_size=1, max_size=30)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The data in pieces of these sizes, over and over."""
    pieces, at, index = [], 0, 0
    while at < len(data):
        pieces.append(data[at : at + sizes[index % len(sizes)]])
        at += len(pieces[-1])
        index += 1
    return pieces
