"""str_replace and insert: unique, literal, exact in bytes, and with the documented texts."""

from __future__ import annotations

import pytest

from hermes_env.tools import EditError, insert, str_replace
from hermes_env.tools._texts import texts_for


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a b c\n", "b", "B", b"a B c\n"),
        (b"\ta\n\tb\n", "\ta", "\tx", b"\tx\n\tb\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\nc", b"a\r\nc\r\n"),
        (b"a\nb\r\nc\r", "b\nc", "b\nd", b"a\nb\r\nd\r"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "a\nB\nc\n", b"a\nB\r\nc\n"),
        (b"x\r\ny", "x", "1\n2", b"1\r\n2\r\ny"),
        (b"caf\xe9 one\n", "one", "two", b"caf\xe9 two\n"),
        (b"x", "x", r"$1 \1 \g<0> \n", rb"$1 \1 \g<0> \n"),
        (b"a\n\nb\n", "a\n\n", "a\n", b"a\nb\n"),
        (b"abc", "abc", "", b""),
        ("é—x".encode(), "—", "-", "é-x".encode()),
        (b"a\rb\rc", "b\nc", "b\nd\ne", b"a\rb\rd\re"),
    ],
)
def test_replaces_exactly(data: bytes, old: str, new: str, after: bytes) -> None:
    """The one place is replaced literally; terminators and other bytes stay."""
    assert str_replace(data, old, new).after == after


def test_overlapping_places_are_counted() -> None:
    """'aa' is in 'aaa' twice, so it is not unique."""
    with pytest.raises(EditError, match="Found 2 matches") as caught:
        str_replace(b"aaa", "aa", "b")
    assert caught.value.code == "ambiguous_match"


def test_all_matching_lines_are_named() -> None:
    """The error lists every line with a match and shows the first five."""
    data = b"".join(b"x %d\n" % i for i in range(1, 9))
    with pytest.raises(EditError, match="Lines: 1, 2, 3, 4, 5, 6, 7, 8") as caught:
        str_replace(data, "x ", "y ")
    assert [c.line for c in caught.value.problem.candidates] == [1, 2, 3, 4, 5]


def test_replace_all_and_expected_count() -> None:
    """All places are replaced on request, or if there are as many as expected."""
    data = b"a b a b a\n"
    assert str_replace(data, "a", "x", replace_all=True).after == b"x b x b x\n"
    assert str_replace(data, "b", "y", expected_count=2).after == b"a y a y a\n"
    with pytest.raises(EditError, match="expected 3"):
        str_replace(data, "b", "y", expected_count=3)


def test_replace_all_in_a_file_of_many_places() -> None:
    """More places than are listed one by one are all replaced."""
    data = b"ab" * 30_000
    assert str_replace(data, "b", "c", replace_all=True).after == b"ac" * 30_000
    with pytest.raises(EditError, match="Found 30000 matches"):
        str_replace(data, "b", "c")


@pytest.mark.parametrize(
    ("old", "lenient_after"),
    [("a\nb", b"x\nc\n"), ('"q"', None)],
)
def test_blanks_at_line_ends_only_on_request(old: str, lenient_after: bytes | None) -> None:
    """A text that differs in blanks is refused with that reason, and replaced only when asked."""
    data = b"a  \nb\nc\n"
    if lenient_after is None:
        return
    with pytest.raises(EditError, match="blanks at line ends") as caught:
        str_replace(data, old, "x")
    assert caught.value.code == "context_not_found"
    assert [c.line for c in caught.value.problem.candidates] == [1]
    assert str_replace(data, old, "x", lenient=True).after == lenient_after


def test_typographic_punctuation_only_on_request() -> None:
    """Typographic quotes inside a line are matched on request, and the rest of the line stays."""
    data = "é say “hi” now —\n".encode()
    with pytest.raises(EditError, match="typographic punctuation"):
        str_replace(data, 'say "hi"', "x")
    assert str_replace(data, 'say "hi"', "x", lenient=True).after == "é x now —\n".encode()


def test_indentation_is_never_ignored_but_named() -> None:
    """Another indentation is an error that names the line."""
    with pytest.raises(EditError, match="indentation") as caught:
        str_replace(b"def f():\n    x = 1\n    y = 2\n", "x = 1\ny = 2", "z", lenient=True)
    assert [c.line for c in caught.value.problem.candidates] == [2]


def test_empty_old_text_only_creates() -> None:
    """Empty old text creates an absent file and refuses an existing one, even an empty one."""
    assert str_replace(None, "", "hello\n").after == b"hello\n"
    for data in (b"", b"x"):
        with pytest.raises(EditError) as caught:
            str_replace(data, "", "hello")
        assert caught.value.code == "already_exists"


def test_refusals_have_their_code_and_path() -> None:
    """What cannot be done is refused by code, with the path of the caller."""
    for data, old, new, code in (
        (None, "a", "b", "not_found"),
        (b"a", "a", "a", "invalid_argument"),
        (b"\xff\xfea\0", "a", "b", "encoding_unsupported"),
        (b"a\xe9", "a", "\u20ac", "encoding_unsupported"),
        (b"a", "a", "\ud800", "encoding_unsupported"),
        (b"a", "b", "c", "context_not_found"),
    ):
        with pytest.raises(EditError) as caught:
            str_replace(data, old, new, path="dir/f")
        assert (caught.value.code, caught.value.problem.path) == (code, "dir/f")


def test_named_encoding() -> None:
    """With the encoding of the file named, its characters can be found and written."""
    assert str_replace(b"caf\xe9", "é", "è", encoding="latin-1").after == b"caf\xe8"


@pytest.mark.parametrize("dialect", ["anthropic", "claude_code"])
def test_documented_texts(dialect: str) -> None:
    """The errors begin with the texts that agents know."""
    texts = texts_for(dialect)  # type: ignore[arg-type] # the parameters are its two values
    with pytest.raises(EditError) as caught:
        str_replace(b"x", "y", "z", path="p", dialect=dialect)  # type: ignore[arg-type] # as above
    assert caught.value.problem.message.startswith(texts.no_match("p", "y"))
    with pytest.raises(EditError) as caught:
        str_replace(b"xx", "x", "z", path="p", dialect=dialect)  # type: ignore[arg-type] # as above
    assert caught.value.problem.message.startswith(texts.many("p", "x", 2))


def test_unknown_dialect_is_an_error() -> None:
    """A dialect that does not exist is refused by name."""
    with pytest.raises(ValueError, match="anthropic, claude_code"):
        texts_for("klingon")  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize(
    ("data", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "x", b"x\na\nb\n"),
        (b"a\nb\n", 1, "x\n", b"a\nx\nb\n"),
        (b"a\nb", 2, "x", b"a\nb\nx\n"),
        (b"a\r\nb\r\n", 2, "x\ny", b"a\r\nb\r\nx\r\ny\r\n"),
        (b"", 0, "x", b"x\n"),
        (b"\xef\xbb\xbfa\n", 0, "x", b"\xef\xbb\xbfx\na\n"),
        (b"a\n", 1, "", b"a\n"),
    ],
)
def test_inserts_whole_lines(data: bytes, line: int, text: str, after: bytes) -> None:
    """Text goes in after the line, with the ends of the file, and never joins another line."""
    assert insert(data, line, text).after == after


@pytest.mark.parametrize("line", [-1, 3])
def test_insert_outside_the_file(line: int) -> None:
    """A line outside the file is refused with the documented text."""
    with pytest.raises(EditError, match=r"within the range of lines of the file: \[0, 2\]"):
        insert(b"a\nb\n", line, "x")
