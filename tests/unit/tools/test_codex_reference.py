"""compat="codex" against the reference command, where one is given.

Set ``HERMES_ENV_APPLY_PATCH`` to an executable that takes a patch as its only argument and applies
it in the current directory. Files and patches are random; the trees and the success must be the
same.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tools._cases import Case, run
from tests.unit.tools._reference import cut
from tests.unit.tools._settings import EXAMPLES

if TYPE_CHECKING:
    import pathlib

_COMMAND = os.environ.get("HERMES_ENV_APPLY_PATCH")
_NAMES = ("f", "g", "k")
_CONTENTS = st.sampled_from(
    ["a", "b", "  a", "\ta", "a  ", "}", "", "é—“x”", "x\u00a0y", "x y", "def f():", "    def f():"]
)


@st.composite
def _files(draw: st.DrawFn) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in draw(st.sets(st.sampled_from(_NAMES), min_size=1)):
        ends = draw(st.sampled_from([("\n",), ("\r\n",), ("\n", "\r\n", "\r")]))
        lines = draw(st.lists(st.tuples(_CONTENTS, st.sampled_from(ends)), max_size=7))
        tail = draw(st.sampled_from(["", "", "a", "last"]))
        files[name] = ("".join(content + end for content, end in lines) + tail).encode()
    return files


@st.composite
def _hunk(draw: st.DrawFn, lines: list[str]) -> list[str]:
    anchor = draw(st.sampled_from(["", "", "", *lines]))
    out = [f"@@ {anchor}" if anchor else "@@"]
    start = draw(st.integers(0, max(len(lines) - 1, 0)))
    for line in lines[start : start + draw(st.integers(0, 3))]:
        shown = draw(st.sampled_from([line, line, line, f"{line}  ", f"  {line}"]))
        plain = shown.replace("—", "-").replace("“", '"')
        out += draw(st.sampled_from([[], [], ["+new"]]))
        out.append(draw(st.sampled_from([" ", "-"])) + draw(st.sampled_from([shown, plain])))
    out += draw(st.sampled_from([["+new"], ["+"], ["+  n"], ["+new", ""], [] if out[1:] else ["+z"]]))
    return out + draw(st.sampled_from([[], [], [], ["*** End of File"]]))


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    files = draw(_files())
    out = ["*** Begin Patch"]
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(_NAMES))
        kind = draw(st.sampled_from(["add", "delete", "move", "update", "update", "update"]))
        if kind == "add":
            out.append(f"*** Add File: {name}")
            out += [f"+{line}" for line in draw(st.lists(_CONTENTS, max_size=2))]
            continue
        if kind == "delete":
            out.append(f"*** Delete File: {name}")
            continue
        out.append(f"*** Update File: {name}")
        # Moving a file to itself deletes it in the reference, which nobody can want.
        target = draw(st.sampled_from([other for other in _NAMES if other != name]))
        out += [f"*** Move to: {target}"] if kind == "move" else []
        lines = [content.decode() for content, _ in cut(files.get(name, b""))]
        for _ in range(draw(st.integers(1, 2))):
            out += draw(_hunk(lines))
    patch = "\n".join([*out, "*** End Patch"])
    return Case("random", {"compat": "codex"}, files, patch=patch)


@pytest.mark.skipif(_COMMAND is None, reason="HERMES_ENV_APPLY_PATCH names no command")
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=_cases())
def test_same_tree_as_the_reference(tmp_path: pathlib.Path, case: Case) -> None:
    """The tree and the success of compat="codex" are those of the reference command."""
    assert _COMMAND is not None
    for name in _NAMES:
        (tmp_path / name).unlink(missing_ok=True)
    for name, data in case.before.items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run([_COMMAND, case.patch], cwd=tmp_path, capture_output=True, check=False)
    theirs = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ours = run(case)
    assert (ours.tree, not ours.problems) == (theirs, done.returncode == 0), done.stderr
