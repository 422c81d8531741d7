"""Unified diffs: what git applies, what is shown of odd bytes, and how much."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_env.tools import Splice, unified_diff
from hermes_env.tools._splice import apply_splices
from hermes_env.tools._text import split_lines

if TYPE_CHECKING:
    from pathlib import Path

_LINES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "  c", "é", "\\x", "-d", "+e", "@@"]),
        st.sampled_from(["\n", "\r\n"]),
    ),
    max_size=30,
).map(lambda lines: "".join(text + end for text, end in lines).encode())
_FILES = st.tuples(_LINES, st.sampled_from([b"", b"open"])).map(b"".join)


def _git_apply(folder: Path, before: bytes, diff: str) -> bytes:
    (folder / "f").write_bytes(before)
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=folder, input=diff.encode(), capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr, diff)
    return (folder / "f").read_bytes()


_with_git = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@_with_git
@given(before=_FILES, after=_FILES)
def test_git_applies_the_diff(tmp_path: Path, before: bytes, after: bytes) -> None:
    """The old content becomes the new one when git applies our diff."""
    diff = unified_diff(before, after, path="f", max_lines=None)
    if before == after:
        assert diff.text == ""
        return
    assert _git_apply(tmp_path, before, diff.text) == after


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@_with_git
@given(
    before=_FILES,
    cuts=st.lists(st.integers(0, 30), max_size=8),
    new=st.sampled_from([b"", b"x\n", b"x\ny\n"]),
)
def test_git_applies_the_diff_of_splices(tmp_path: Path, before: bytes, cuts: list[int], new: bytes) -> None:
    """Line numbers stay right behind several edits that add and remove lines."""
    lines = split_lines(before)
    offsets = [sum(len(text) + len(end) for text, end in lines[:i]) for i in range(len(lines) + 1)]
    points = sorted({offsets[min(cut, len(lines))] for cut in cuts})
    splices = [Splice(a, b, new) for a, b in zip(points[::2], points[1::2], strict=False)]
    after = apply_splices(before, splices)
    diff = unified_diff(before, after, path="f", splices=splices, max_lines=None)
    if diff.added or diff.removed:
        _check_numbers(diff.text, before, after)
        assert _git_apply(tmp_path, before, diff.text) == after
    else:
        assert before == after


def _check_numbers(diff: str, before: bytes, after: bytes) -> None:
    """Every hunk header names the lines that its context and its changes have in both files."""
    old = [text.decode() + end.decode().replace("\n", "") for text, end in split_lines(before)]
    new = [text.decode() + end.decode().replace("\n", "") for text, end in split_lines(after)]
    place = {"-": 0, "+": 0}
    for line in diff.split("\n")[2:-1]:
        header = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if header:
            place["-"] = int(header[1]) - (header[2] != "0")
            place["+"] = int(header[3]) - (header[4] != "0")
            continue
        if line.startswith("\\"):
            continue
        if line[0] in "- ":
            assert old[place["-"]] == line[1:]
            place["-"] += 1
        if line[0] in "+ ":
            assert new[place["+"]] == line[1:]
            place["+"] += 1


@settings(max_examples=200, deadline=None, database=None)
@given(
    before=_FILES,
    cuts=st.lists(st.integers(0, 120), max_size=6),
    new=st.sampled_from([b"", b"x", b"x\ny", b"\n"]),
)
def test_splices_and_contents_give_the_same_counts(before: bytes, cuts: list[int], new: bytes) -> None:
    """A diff from several splices shows as many lines as it counts, and the right balance."""
    points = sorted({min(cut, len(before)) for cut in cuts})
    splices = [Splice(a, b, new) for a, b in zip(points[::2], points[1::2], strict=False)]
    after = apply_splices(before, splices)
    diff = unified_diff(before, after, path="f", splices=splices, max_lines=None)
    old = [line[1:] for line in diff.text.split("\n")[2:] if line[:1] == "-"]
    new_lines = [line[1:] for line in diff.text.split("\n")[2:] if line[:1] == "+"]
    assert (len(old), len(new_lines)) == (diff.removed, diff.added)
    assert diff.added - diff.removed == len(after.splitlines()) - len(before.splitlines())


def test_new_deleted_and_moved_files() -> None:
    """New and deleted files are against /dev/null, moved ones say from where to where."""
    assert unified_diff(None, b"a\n", path="f").text == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"
    assert unified_diff(b"a\n", None, path="f").text == "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    moved = unified_diff(b"a\n", b"a\n", path="g", old_path="f").text
    assert moved == "rename from f\nrename to g\n"


def test_undecodable_bytes_are_shown_without_loss() -> None:
    """Bytes that are not UTF-8 become escapes, and backslashes beside them are doubled."""
    text = unified_diff(b"caf\xe9 \\xe9\n", b"caf\xe8\n", path="f").text
    assert "-caf\\xe9 \\\\xe9\n" in text
    assert "+caf\\xe8\n" in text
    text.encode("utf-8")


def test_at_most_a_hundred_lines_then_a_summary() -> None:
    """A long diff is cut after 100 lines and says what is missing."""
    before = b"".join(b"%d\n" % i for i in range(500))
    diff = unified_diff(before, b"", path="f")
    lines = diff.text.splitlines()
    assert diff.truncated
    assert len(lines) == 2 + 100 + 1
    assert lines[-1] == "... 401 more lines of this diff (in all +0 -500)"


def test_terminator_changes_are_visible() -> None:
    """CR LF, lone CR and a missing final newline look different from LF."""
    text = unified_diff(b"a\r\nb\rc", b"a\nb\nc\n", path="f").text
    assert "-a\r\n" in text
    assert "-b\n\\ The line ends in CR alone\n" in text
    assert "-c\n\\ No newline at end of file\n" in text


def test_line_numbers_behind_earlier_edits() -> None:
    """A later hunk counts the lines that earlier hunks of the same diff added and removed."""
    before = b"".join(b"%d\n" % i for i in range(1, 101))
    add, cut, change = (
        before.index(b"\n10\n") + 1,
        before.index(b"\n50\n") + 1,
        before.index(b"\n90\n"),
    )
    splices = [
        Splice(add, add, b"new\nnew\nnew\n"),
        Splice(cut, cut + 3, b""),
        Splice(change + 1, change + 3, b"x"),
    ]
    diff = unified_diff(before, apply_splices(before, splices), path="f", splices=splices)
    headers = [line for line in diff.text.splitlines() if line.startswith("@@")]
    assert headers == ["@@ -7,6 +7,9 @@", "@@ -47,7 +50,6 @@", "@@ -87,7 +89,7 @@"]
    assert (diff.added, diff.removed) == (4, 2)
