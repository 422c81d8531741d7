"""Paths at which no file can be: each refusal is true, and has the code that a caller can act on."""

from __future__ import annotations

import os

from hermes_env.tools import EditOutcome, FilePolicy

from .bench import Bench


def _said(outcome: EditOutcome) -> tuple[str, str]:
    assert outcome.status == "refused" and outcome.error is not None, outcome
    return outcome.error.code, outcome.error.message


def test_below_a_regular_file(near: Bench) -> None:
    """A path through a file is `not_found` in a workspace that is reached by a link too, and outside stays outside."""
    near.put("file", b"a\n")
    (near.home / "link").symlink_to("work")
    for root in ("work", "link"):
        tools = near.tools(FilePolicy(workspace=str(near.home / root)))
        code, message = _said(tools.write_file("file/x", "x"))
        assert code == "not_found" and "is a file, not a directory" in message
        read = tools.read_file("file/x")
        assert read.error is not None and read.error.code == "not_found"
        assert _said(tools.write_file(f"{near.home}/store/x/y", "x"))[0] == "path_outside_root"
        assert _said(tools.write_file("/etc/passwd/x", "x"))[0] == "path_outside_root"
    assert near.cat("file") == b"a\n"


def test_a_path_that_can_only_name_a_directory(near: Bench) -> None:
    """Nothing is created at a path with a slash or a dot at its end, by no tool."""
    before = near.tree()
    tools = near.tools()
    patch = "*** Begin Patch\n*** Add File: d/\n+x\n*** End Patch\n"
    for outcome in (tools.write_file("d/", ""), tools.write_file("d/.", ""), tools.apply_patch(patch)):
        assert _said(outcome)[0] == "path_invalid"
    assert near.tree() == before


def test_a_path_that_stands_for_no_bytes(near: Bench) -> None:
    """A stray surrogate in a path is `path_invalid`; one that stands for a byte names a file."""
    tools = near.tools()
    assert _said(tools.write_file("a\ud83db", "x"))[0] == "path_invalid"
    read = tools.read_file("a\ud83db")
    assert read.error is not None and read.error.code == "path_invalid"
    assert tools.write_file("a\udcffb", "x").ok
    assert b"a\xffb" in os.listdir(os.fsencode(near.root))


def test_a_file_and_one_below_it(near: Bench) -> None:
    """A patch that makes a file and another one in it, in any order or by a move, is refused and names both."""
    near.put("old", b"a\n")
    before = near.tree()
    tools = near.tools()
    moved = "*** Update File: old\n*** Move to: q\n@@\n-a\n+b\n"
    for body in (
        "*** Add File: q\n+x\n*** Add File: q/z\n+y\n",
        "*** Add File: q/z\n+y\n*** Add File: q\n+x\n",
        f"{moved}*** Add File: q/z\n+y\n",
        f"*** Add File: q/z\n+y\n{moved}",
    ):
        code, message = _said(tools.apply_patch(f"*** Begin Patch\n{body}*** End Patch\n"))
        assert code == "path_invalid" and "q/z cannot be in q" in message
        assert near.tree() == before


def test_a_file_in_place_of_what_the_patch_took_away(near: Bench) -> None:
    """A directory that a patch would make only for a file that it deletes again is in nobody's way."""
    tools = near.tools()
    body = "*** Add File: q/z\n+y\n*** Delete File: q/z\n*** Add File: q\n+x\n"
    assert tools.apply_patch(f"*** Begin Patch\n{body}*** End Patch\n").ok
    assert near.cat("q") == b"x\n"


def test_a_file_below_one_that_the_patch_takes_away(near: Bench) -> None:
    """A file that is deleted or moved away cannot become a directory in the same patch; the refusal says what to do."""
    near.put("file", b"a\n")
    before = near.tree()
    tools = near.tools()
    for head in ("*** Delete File: ./file\n", "*** Update File: file\n*** Move to: other\n"):
        for path in ("file/z", "file/deep/z", f"{near.root}/file/z"):
            outcome = tools.apply_patch(f"*** Begin Patch\n{head}*** Add File: {path}\n+x\n*** End Patch\n")
            code, message = _said(outcome)
            assert code == "path_invalid" and "use two patches" in message, message
            assert outcome.error is not None and (outcome.error.path, outcome.error.patch_line) is not None
            assert near.tree() == before
    assert tools.apply_patch("*** Begin Patch\n*** Delete File: file\n*** End Patch\n").ok
    assert tools.apply_patch("*** Begin Patch\n*** Add File: file/z\n+x\n*** End Patch\n").ok
    assert near.cat("file/z") == b"x\n"
