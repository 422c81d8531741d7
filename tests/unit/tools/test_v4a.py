"""Streaming, extraction and single rules of the patch grammar."""

from __future__ import annotations

import pytest

from hermes_env.tools import PatchParseError, StreamingParser, extract_patches, parse_patch

_PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch\n"


def test_operations_come_while_the_text_arrives() -> None:
    """An operation is returned as soon as the line after it is complete."""
    parser = StreamingParser()
    assert parser.feed("*** Begin Patch\n*** Add File: a\n+x") == ()
    assert parser.feed("\n*** Delete Fi") == ()
    assert [op.path for op in parser.feed("le: b\n")] == ["a"]
    assert [op.path for op in parser.feed("*** End Patch")] == []
    assert [op.path for op in parser.close().operations] == ["a", "b"]


def test_extraction_from_a_message() -> None:
    """Patches are found in prose, fences and shell commands; content lines never end one."""
    inner = "*** Begin Patch\n*** Update File: f\n@@\n-a\n+*** End Patch\n+b\n*** End Patch\n"
    message = f"I will:\n```\n{_PATCH}```\nand\n\napply_patch <<'EOF'\n{inner}EOF\n*** Begin Patch\ncut"
    assert extract_patches(message) == (_PATCH, inner)
    assert extract_patches("no patch here") == ()


def test_extraction_keeps_context_lines_that_look_like_markers() -> None:
    """A context line with the text of an End marker does not end the patch."""
    patch = "*** Begin Patch\n*** Update File: f\n@@\n *** Begin Patch\n *** End Patch\n-a\n*** End Patch\n"
    assert extract_patches(f"text\n{patch}text") == (patch,)
    assert len(parse_patch(patch).operations[0].hunks[0].lines) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*** Begin Patch ***\n*** Add File: a\n+x\n*** End Patch", "unexpected '***'"),
        ("*** Begin Patch\n*** Update File: a ***\n@@\n-x\n*** End Patch", "unexpected ' ***'"),
        ("*** Begin Patch\n*** Move File: a b\n*** End Patch", "' -> '"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "expected one of"),
        (
            "*** Begin Patch\n*** Update File: a\n@@\nfoo\n*** End Patch",
            "starts with ' ' (context line)",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-x\n*** End of File\n-y\n*** End Patch",
            "after '*** End of File'",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-x\n*** Move to: b\n*** End Patch",
            "directly follow",
        ),
        ("*** Begin Patch\n*** Add File: a\n+x\n\n+y\n*** End Patch", "this line is empty"),
        ("*** Begin Patch\n*** Environment ID:\n*** Add File: a\n*** End Patch", "is empty"),
        ("*** Begin Patch\n*** Add File: a\n+\ud800\n*** End Patch", "lone surrogate"),
        ("*** Add File: a\n+x\n", "before '*** Begin Patch'"),
        ("hello", "not a patch"),
        ("", "not a patch"),
    ],
)
def test_messages_say_what_to_do(text: str, said: str) -> None:
    """Each fault is named in words that tell the writer of the patch what to change."""
    with pytest.raises(PatchParseError) as caught:
        parse_patch(text)
    assert said in str(caught.value)


def test_one_carriage_return_is_transport_the_next_is_content() -> None:
    """Of two carriage returns at a line end one is kept."""
    patch = parse_patch("*** Begin Patch\r\n*** Add File: a\r\n+x\r\r\n*** End Patch\r\n")
    assert patch.operations[0].lines[0].text == "x\r"


def test_too_long_patch_is_refused() -> None:
    """The limit counts UTF-8 bytes."""
    text = _PATCH.replace("+x", "+" + "é" * 100)
    assert parse_patch(text, max_bytes=300).operations
    with pytest.raises(PatchParseError) as caught:
        parse_patch(text, max_bytes=200)
    assert caught.value.code == "too_large"


def test_environment_id_and_rendering() -> None:
    """The canonical spelling keeps the environment, renames, anchors, numbers and end marks."""
    text = (
        "*** Begin Patch\n*** Environment ID: box\n*** Update File: a\n*** Move to: b\n"
        "@@ -3,1 +3,1 @@\n@@ class X:\n"
        "@@   def f():\n-x\n+y\n\\ No newline at end of file\n*** End of File\n*** End Patch\n"
    )
    patch = parse_patch(text)
    assert patch.environment_id == "box"
    assert patch.render() == text
