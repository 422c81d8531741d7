"""Text or binary, encodings, line endings and windows with line numbers."""

from __future__ import annotations

import pytest

from hermes_env.tools import EditError, describe, view_lines
from hermes_env.tools._display import clean, is_escaped, show_bytes
from hermes_env.tools._text import BINARY_SAMPLE, is_binary


@pytest.mark.parametrize(
    ("data", "binary", "encoding", "bom", "eol", "final", "lines"),
    [
        (b"", False, "ascii", False, "none", True, 0),
        (b"a", False, "ascii", False, "none", False, 1),
        (b"a\nb\n", False, "ascii", False, "lf", True, 2),
        (b"a\r\nb\r\n", False, "ascii", False, "crlf", True, 2),
        (b"a\rb\r", False, "ascii", False, "cr", True, 2),
        (b"a\r\nb\n", False, "ascii", False, "mixed", True, 2),
        ("é\n".encode(), False, "utf-8", False, "lf", True, 1),
        (b"\xef\xbb\xbfa\n", False, "utf-8", True, "lf", True, 1),
        (b"caf\xe9\n", False, "unknown-8bit", False, "lf", True, 1),
        (b"\xff\xfea\0", False, "utf-16-le", True, "none", False, 1),
        (b"\x7fELF\0\0", True, "binary", False, "none", False, 1),
        (b"\x01\x02\x03\xff\xfe\xfd", True, "binary", False, "none", False, 1),
        (b"\x1b[1mcolour\x1b[0m\n", False, "ascii", False, "lf", True, 1),
    ],
)
def test_describe(
    data: bytes,
    binary: bool,
    encoding: str,
    bom: bool,
    eol: str,
    final: bool,
    lines: int,
) -> None:
    """The report names what is there."""
    info = describe(data)
    assert (info.binary, info.encoding, info.bom) == (binary, encoding, bom)
    assert (info.eol, info.final_newline, info.lines) == (eol, final, lines)


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_character_at_the_sample_edge_is_not_cut(cut: int) -> None:
    """A file of four-byte characters is text wherever the sample ends."""
    data = b"\x01" * (cut + BINARY_SAMPLE // 5) + "𝄞".encode() * BINARY_SAMPLE
    assert not is_binary(data)
    assert not is_binary(data, complete=True)
    assert is_binary(data[: BINARY_SAMPLE - 4] + b"\xf0\x9d", complete=True)


def test_nul_makes_binary_only_in_the_sample() -> None:
    """A NUL counts in the first 8 KiB."""
    assert is_binary(b"a" * (BINARY_SAMPLE - 1) + b"\0")
    assert not is_binary(b"a" * BINARY_SAMPLE + b"\0")


def test_show_bytes_is_unambiguous() -> None:
    """A byte that is not UTF-8 and its escape in ASCII are told apart by the notes."""
    assert is_escaped(b"\xe9")
    assert not is_escaped(b"\\xe9")
    assert view_lines(b"ok\n\xe9\n").notes == (r"bytes that are not UTF-8 are shown as \xNN in lines 2",)
    assert show_bytes(b"\xe9 \\xe9") == r"\xe9 \\xe9"
    assert show_bytes("é".encode()) == "é"
    assert clean("a\udce9\ud800") == r"a\xe9\ud800"


def test_view_numbers_and_clips() -> None:
    """A view counts from 1; a range beyond the end is clipped with a note, -1 is the end."""
    data = b"a\r\nb\r\nc"
    assert view_lines(data).text == "1: a\n2: b\n3: c\n"
    assert view_lines(data, 2, -1).text == "2: b\n3: c\n"
    view = view_lines(data, 2, 9)
    assert (view.first, view.last, view.total) == (2, 3, 3)
    assert view.notes == ("the file has only 3 lines",)
    assert view_lines(b"").text == ""


@pytest.mark.parametrize(("first", "last"), [(0, 1), (4, 5), (3, 2)])
def test_view_refuses_a_range_outside_the_file(first: int, last: int) -> None:
    """A range that starts outside the file or ends before it starts is refused."""
    with pytest.raises(EditError, match="Invalid `view_range`"):
        view_lines(b"a\nb\nc\n", first, last)


def test_view_limits_are_named_outside_the_text() -> None:
    """Lines and bytes that are not shown are named in the notes only."""
    data = b"".join(b"%d\n" % i for i in range(1, 101))
    view = view_lines(data, max_lines=10)
    assert view.last == 10
    assert view.notes == ("lines 11 to 100 are not shown; ask for them by range",)
    view = view_lines(b"x" * 50 + b"\nshort\n", max_bytes=20)
    assert view.text == f"1: {'x' * 20}\n"
    assert "a long line was cut" in view.notes
