"""What callers may give as stdin, and the chunks it becomes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import InvalidArgument
from hermes_env._stdin import CHUNK, source_of

BIG = bytes(range(256)) * (3 * CHUNK // 256) + b"tail"


def joined(data: Any) -> tuple[int | None, bytes]:
    """Announced size and all bytes."""
    source = source_of(data)
    assert source is not None
    return source.size, b"".join(source.chunks)


@pytest.mark.parametrize("data", [None, b"", bytearray(), memoryview(b"")])
def test_nothing_is_end_of_file(data: Any) -> None:
    """None and empty bytes are both end-of-file at once."""
    assert source_of(data) is None


@pytest.mark.parametrize("data", [b"x", BIG, bytearray(BIG), memoryview(BIG)[1:-1]])
def test_bytes_in_memory(data: Any) -> None:
    """Bytes come in chunks of at most 1 MiB, unchanged and of known size."""
    assert joined(data) == (len(data), bytes(data))
    source = source_of(data)
    assert source is not None
    assert max(len(chunk) for chunk in source.chunks) <= CHUNK


def test_a_view_of_wider_items_counts_bytes() -> None:
    """A memoryview of integers is taken as its bytes."""
    view = memoryview(bytes(range(16))).cast("I")
    assert joined(view) == (16, bytes(range(16)))


def test_a_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    """The size of a regular file is what is left of it."""
    path = tmp_path / "data"
    path.write_bytes(b"skipped" + BIG)
    with path.open("rb") as file:
        file.seek(7)
        assert joined(file) == (len(BIG), BIG)


def test_a_file_behind_its_end_is_empty(tmp_path: Path) -> None:
    """A position past the end leaves zero bytes, not a negative number."""
    path = tmp_path / "data"
    path.write_bytes(b"abc")
    with path.open("rb") as file:
        file.seek(99)
        assert joined(file) == (0, b"")


def test_a_pipe_and_an_object_without_descriptor_have_no_size() -> None:
    """Where the size cannot be known it is None."""
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    with open(reader, "rb") as file:
        assert joined(file) == (None, b"abc")
    assert joined(io.BytesIO(b"abc")) == (None, b"abc")


def test_an_iterable_is_read_once_and_lazily() -> None:
    """Chunks are taken when they are needed; empty ones are passed on, large ones are cut."""
    taken = []

    def produce() -> Iterator[bytes]:
        for chunk in (b"a", b"", bytearray(b"b"), BIG):
            taken.append(len(chunk))
            yield bytes(chunk)

    source = source_of(produce())
    assert source is not None and source.size is None and taken == []
    chunks = [bytes(chunk) for chunk in source.chunks]
    assert b"".join(chunks) == b"ab" + BIG
    assert chunks.count(b"") == 1 and max(map(len, chunks)) <= CHUNK


@pytest.mark.parametrize("data", ["text", 7, object()])
def test_what_is_not_bytes_is_refused_at_once(data: Any) -> None:
    """Text and things that are no stream are refused before anything runs."""
    with pytest.raises(InvalidArgument) as caught:
        source_of(data, "data")
    assert caught.value.argument == "data"


@pytest.mark.parametrize("data", [["text"], io.StringIO("text"), [b"a", None]])
def test_a_chunk_that_is_not_bytes_is_refused_when_it_comes(data: Any) -> None:
    """A stream of something else fails on its first such chunk."""
    source = source_of(data)
    assert source is not None
    with pytest.raises(InvalidArgument, match="every chunk must be bytes"):
        list(source.chunks)
