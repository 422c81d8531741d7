"""Random files and edits against the slow reference model."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_env._codec import decode_lossless, encode_lossless
from hermes_env.tools import (
    EditError,
    Missing,
    Snapshot,
    insert,
    make_plan,
    parse_patch,
    paths_of,
    str_replace,
)
from hermes_env.tools._splice import apply_splices, single_splice
from hermes_env.tools._text import Document, LineIndex, split_lines
from tests.unit.tools._reference import RefHunk, cut, find_in_order, join, patched
from tests.unit.tools._settings import thorough

_TERMINATORS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
# Few different lines, so that blocks repeat; among them blank ones, indents and foreign bytes.
_CONTENTS = st.sampled_from(
    [
        b"",
        b"a",
        b"b",
        b"  a",
        b"\ta",
        b"a  ",
        b"}",
        b"caf\xe9",
        "é—“x”".encode(),
        b"\x1b[1m\x07",
        b"\x0c",
        b"*** End Patch",
        b"@@",
        b"-x",
        b"\xf0\x9f",
    ]
)


@st.composite
def _files(draw: st.DrawFn) -> bytes:
    bom = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    uniform: bool = draw(st.booleans())
    end: bytes = draw(_TERMINATORS)
    lines = draw(st.lists(st.tuples(_CONTENTS, _TERMINATORS), max_size=14))
    data = b"".join(content + (end if uniform else own) for content, own in lines)
    open_end: bool = draw(st.booleans())
    if lines and open_end:
        data += draw(st.sampled_from([b"last", b"a", b"caf\xe9"]))
    return bom + data


@st.composite
def _edits(draw: st.DrawFn) -> tuple[bytes, list[RefHunk]]:
    """A file and hunks cut out of it in ascending order, with changed, removed and added lines."""
    data = draw(_files())
    body = data.removeprefix(b"\xef\xbb\xbf")
    contents = [content for content, _ in cut(body)]
    new_lines = st.lists(st.sampled_from([b"new", b"", b"  new", b"+x", b"*** End of File"]), max_size=2)
    hunks: list[RefHunk] = []
    position = 0
    while position < len(contents) and len(hunks) < 3:
        start = draw(st.integers(position, len(contents) - 1))
        length = draw(st.integers(1, min(4, len(contents) - start)))
        lines: list[tuple[str, bytes]] = []
        for content in contents[start : start + length]:
            lines += [("+", new) for new in draw(new_lines)]
            blanks = draw(st.sampled_from([b"", b"", b"", b" ", b"\t"]))
            lines.append((draw(st.sampled_from([" ", "-"])), content + blanks))
        lines += [("+", new) for new in draw(new_lines)]
        hunks.append(RefHunk(tuple(lines)))
        position = start + length
    return data, hunks


def _text(hunks: list[RefHunk]) -> str:
    out = ["*** Begin Patch", "*** Update File: f"]
    for hunk in hunks:
        out.append("@@")
        out += [kind + decode_lossless(content) for kind, content in hunk.lines]
    return "\n".join([*out, "*** End Patch", ""])


@thorough
@given(_edits())
def test_hunks_do_what_the_obvious_model_does(edit: tuple[bytes, list[RefHunk]]) -> None:
    """A patch gives the bytes of the list model where each hunk has one place, else a refusal."""
    data, hunks = edit
    if not hunks:
        return
    patch = parse_patch(_text(hunks))
    plan = make_plan(patch, {"f": Snapshot.of(data)})
    contents = [content for content, _ in cut(data.removeprefix(b"\xef\xbb\xbf"))]
    blank = any(not b"".join(hunk.old).strip(b" \t") for hunk in hunks)
    expected = find_in_order(contents, hunks)
    codes = {problem.code for problem in plan.problems}
    if expected == "ambiguous_match" or blank:
        assert "ambiguous_match" in codes
    elif isinstance(expected, list):
        assert not codes, plan.problems
        after = plan.changes[0].after if plan.changes else data
        assert after == patched(data, hunks, expected)
    elif not codes:
        # The hunk was found by indentation or out of order: allowed only if said so.
        reports = [report for change in plan.changes for report in change.hunks]
        assert not plan.changes or any(report.out_of_order or report.tier != "exact" for report in reports)


@thorough
@given(_files())
def test_codec_and_line_index_are_exact(data: bytes) -> None:
    """Decoding and encoding, cutting and joining, and numbering lines lose nothing."""
    assert encode_lossless(decode_lossless(data)) == data
    lines = cut(data)
    assert split_lines(data) == lines
    assert join(lines) == data
    index = LineIndex(data)
    assert index.lines == len(lines)
    offset = 0
    for number, (content, end) in enumerate(lines):
        assert index.offset_of(number) == offset
        assert index.line_at(offset) == number
        assert index.line_at(offset + len(content)) == number
        offset += len(content) + len(end)
    assert index.offset_of(len(lines)) == len(data)


@thorough
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_single_splice_is_the_difference(before: bytes, after: bytes) -> None:
    """The splice between two contents turns one into the other and starts where they differ."""
    splices = single_splice(before, after)
    assert apply_splices(before, splices) == after
    if splices:
        start = splices[0].start
        assert before[:start] == after[:start]
        assert before[start : start + 1] != after[start : start + 1]


def _normal(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@thorough
@given(_files(), st.data())
def test_str_replace_changes_one_place_only(data: bytes, draw: st.DataObject) -> None:
    """One place is replaced and nothing around it; several are refused with their number."""
    body = data.removeprefix(b"\xef\xbb\xbf")
    normal = _normal(body)
    start = draw.draw(st.integers(0, len(normal)))
    needle = normal[start : draw.draw(st.integers(start, min(len(normal), start + 12)))]
    new = draw.draw(st.sampled_from([b"", b"N", b"x\ny", b"\n", b"a\nb\n"]))
    if not needle or needle == new:
        return
    hits = [i for i in range(len(normal)) if normal.startswith(needle, i)]
    if len(hits) != 1:
        with pytest.raises(EditError, match=f"Found {len(hits)} matches") as caught:
            str_replace(data, decode_lossless(needle), decode_lossless(new))
        assert caught.value.code == "ambiguous_match"
        return
    edit = str_replace(data, decode_lossless(needle), decode_lossless(new))
    after = edit.after.removeprefix(b"\xef\xbb\xbf") if data != body else edit.after
    kept_front = _original_offset(body, hits[0])
    kept_back = len(body) - _original_offset(body, hits[0] + len(needle))
    assert after[:kept_front] == body[:kept_front]
    assert kept_back == 0 or after[-kept_back:] == body[-kept_back:]
    middle = after[kept_front : len(after) - kept_back]
    if not (body[:kept_front].endswith(b"\r") or body[len(body) - kept_back :].startswith(b"\n")):
        assert _normal(middle) == new
    allowed = {end for _, end in cut(body)} | {b"\n", b""}
    assert {end for _, end in cut(middle)} <= allowed


def _original_offset(data: bytes, offset: int) -> int:
    """Walk to the byte that an offset in the LF form stands for."""
    position = 0
    for _ in range(offset):
        position += 2 if data[position : position + 2] == b"\r\n" else 1
    return position


@thorough
@given(_files(), st.integers(0, 16), st.sampled_from(["x", "x\n", "x\ny", "\n"]))
def test_insert_puts_whole_lines(data: bytes, line: int, text: str) -> None:
    """Inserting gives the lines of the list model, or names the range of lines."""
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    lines = cut(data[len(bom) :])
    if line > len(lines):
        with pytest.raises(EditError, match=re.escape(f"[0, {len(lines)}]")):
            insert(data, line, text)
        return
    eol = next((end for _, end in lines if end), b"\n")
    new = [(part.encode(), eol) for part in text.removesuffix("\n").split("\n")]
    before = [(c, e or eol) for c, e in lines[:line]]
    assert insert(data, line, text).after == bom + join([*before, *new, *lines[line:]])


@thorough
@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_operations_compose(first: list[str], second: list[str]) -> None:
    """Moving a file along a path of names and back leaves the tree of a plain dictionary."""
    tree = {"a": b"A\n", "b": b"B\n"}
    files = {name: Snapshot.of(data) for name, data in tree.items()}
    model = dict(tree)
    lines = ["*** Begin Patch"]
    for source, target in zip(first, second, strict=False):
        if source in model and target not in model:
            model[target] = model.pop(source)
            lines.append(f"*** Move File: {source} -> {target}")
    if len(lines) == 1:
        return
    patch = parse_patch("\n".join([*lines, "*** End Patch"]))
    plan = make_plan(patch, {path: files.get(path, Missing()) for path in paths_of(patch)})
    assert plan.ok, plan.problems
    result = dict(tree)
    for change in plan.changes:
        gone = change.source if change.kind == "move" else change.path
        if change.kind in {"move", "delete"} and gone is not None:
            del result[gone]
    result |= {change.path: change.after for change in plan.changes if change.after is not None}
    assert result == model


def test_document_keeps_bom_aside() -> None:
    """Line 0 of a file with a BOM starts behind it."""
    document = Document(b"\xef\xbb\xbfa\nb")
    assert document.line(0) == b"a"
    assert document.span(0, 1) == (3, 5)


def test_line_index_across_its_checkpoints() -> None:
    """CR LF on the edge between two checkpoints is one terminator, wherever the edge falls."""
    for shift in range(4):
        data = b"x" * ((1 << 14) - 2 + shift) + b"\r\n" + b"y\r\n" * 20_000
        index = LineIndex(data)
        assert index.lines == 20_001
        for number in (1, 2, 5_000, 19_999):
            offset = len(data) - 3 * (20_001 - number)
            assert index.offset_of(number) == offset
            assert LineIndex(data).line_at(offset) == number
            assert LineIndex(data).offset_of(number) == offset
