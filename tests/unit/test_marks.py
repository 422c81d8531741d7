"""End marks, however the transport cuts them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_env import EndMarks, Launch
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


SHELLS = ["sh", "bash", "dash", "busybox ash", "mksh", "zsh --emulate sh", "yash"]


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("one_group", [True, False])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_wrapper_works_in_every_shell(shell: str, one_group: bool, leads: bool) -> None:
    """Both streams are marked, output and arguments are the command's, and it shares a group only where it should."""
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    marks = EndMarks()
    script = 'read -r st </proc/$$/stat; set -- "$1" ${st##*") "}; echo "$1 $4 $PPID"; echo err >&2; exit 7'
    argv = [*words, *marks.argv(Launch(script, ("arg",)), setup="exec </dev/null;", one_group=one_group)[1:]]
    done = subprocess.run(argv, capture_output=True, start_new_session=leads, check=False)
    name, group, parent = marks.feed("stdout", done.stdout).split()
    assert (marks.feed("stderr", done.stderr), marks.status, done.returncode) == (b"err\n", 7, 7)
    assert name == b"arg" and (group == parent) is (leads and one_group)
