"""Edits of links, of files with several names, and of files that exchange theirs."""

from __future__ import annotations

import os
import stat

from .bench import Bench


def test_links_are_followed_moved_and_deleted_as_told(bench: Bench) -> None:
    """An update goes to the file behind a link; deleting and moving a link leave that file alone."""
    bench.put("real", b"old\n", 0o640)
    for name in ("update", "delete", "move"):
        (bench.root / name).symlink_to("real")
    (bench.root / "dangling").symlink_to("nothing")
    patch = (
        "*** Begin Patch\n*** Update File: update\n@@\n-old\n+new\n*** Delete File: delete\n"
        "*** Update File: move\n*** Move to: moved\n*** End Patch\n"
    )
    outcome = bench.tools().apply_patch(patch)
    assert (outcome.status, outcome.errors) == ("applied", [])
    assert bench.cat("real") == b"new\n"
    assert os.readlink(bench.root / "update") == os.readlink(bench.root / "moved") == "real"
    assert not os.path.lexists(bench.root / "delete") and not os.path.lexists(bench.root / "move")
    refused = bench.tools().write_file("dangling", "x")
    assert refused.error is not None and refused.error.code == "not_regular"
    assert not (bench.root / "nothing").exists()


LINKS = """*** Begin Patch
*** Delete File: gone
*** Delete File: nowhere
*** Delete File: way
*** Update File: move
*** Move to: deep/er/moved
*** End Patch
"""


def links(bench: Bench) -> None:
    """Links for `LINKS`: to a file, to nothing and to a directory."""
    bench.put("real", b"old\n", 0o640)
    (bench.root / "gone").symlink_to("real")
    (bench.root / "nowhere").symlink_to("no such file\udcff")
    (bench.root / "way").symlink_to("..")
    (bench.root / "move").symlink_to(f"{bench.root}/real")


def test_links_are_undone(bench: Bench) -> None:
    """Links that an edit deleted or moved come back with their text, in one round trip for all of them."""
    links(bench)
    before = bench.tree()
    tools = bench.tools()
    bench.scripts.clear()
    done = tools.apply_patch(LINKS)
    assert (done.status, done.errors) == ("applied", [])
    assert len(bench.scripts) == (0 if bench.kind == "native" else 4)
    assert os.readlink(bench.root / "deep/er/moved") == f"{bench.root}/real"
    assert not any(os.path.lexists(bench.root / name) for name in ("gone", "nowhere", "way", "move"))
    assert "-no such file\\xff\n" in done.diff and "rename to deep/er/moved" in done.diff and "old" not in done.diff
    assert [file.before_sha256 for file in done.changed_files] == [None] * 4
    after = bench.tree()
    undone = tools.undo(done.edit_id)
    assert (undone.status, undone.errors) == ("applied", []) and bench.tree() == before
    assert tools.undo(undone.edit_id).ok and bench.tree() == after
    (bench.root / "gone").symlink_to("elsewhere")
    late = bench.tree()
    refused = tools.undo(done.edit_id)
    assert refused.error is not None and (refused.error.code, refused.error.path) == ("stale", "gone")
    assert bench.tree() == late


def test_what_happens_to_a_moved_link_in_one_patch(near: Bench) -> None:
    """A link that was moved is moved again or deleted as a link; editing through it and replacing it are refused."""
    near.put("real", b"old\n")
    (near.root / "link").symlink_to("real")
    before, tools = near.tree(), near.tools()
    move = "*** Begin Patch\n*** Update File: link\n*** Move to: l2\n"
    for body, code in (
        ("*** Update File: l2\n@@\n-old\n+new\n", "not_regular"),
        ("*** Add File: l2\n+x\n", "already_exists"),
        ("*** Add File: link\n+x\n", "not_regular"),
        ("*** Update File: real\n*** Move to: l2\n", "already_exists"),
    ):
        outcome = tools.apply_patch(f"{move}{body}*** End Patch\n")
        assert outcome.error is not None and outcome.error.code == code, outcome
        assert near.tree() == before
    assert tools.apply_patch(f"{move}*** Update File: l2\n*** Move to: link\n*** End Patch\n").status == "unchanged"
    again = tools.apply_patch(f"{move}*** Update File: l2\n*** Move to: l3\n*** End Patch\n")
    assert again.ok and os.readlink(near.root / "l3") == "real"
    assert tools.undo().ok and near.tree() == before
    gone = tools.apply_patch(f"{move}*** Delete File: l2\n*** End Patch\n")
    assert gone.ok and os.listdir(near.root) == ["real"]
    assert tools.undo().ok and near.tree() == before


def test_hard_links_are_kept(bench: Bench) -> None:
    """All names of a file see the new bytes, or none where that is refused."""
    path = bench.put("a", b"old\n")
    os.link(path, bench.root / "b")
    assert bench.tools().str_replace("a", "old", "new").ok
    assert bench.cat("a") == bench.cat("b") == b"new\n"
    assert not bench.tools(hardlinks="refuse").str_replace("a", "new", "x").ok
    assert bench.cat("b") == b"new\n"
    assert bench.tools(hardlinks="break").str_replace("a", "new", "x").ok
    assert (bench.cat("a"), bench.cat("b")) == (b"x\n", b"new\n")


def test_files_that_exchange_their_names(bench: Bench) -> None:
    """A patch that moves three files in a ring gives each its place, with its mode."""
    bench.put("a", b"A", 0o600)
    bench.put("b", b"B", 0o644)
    bench.put("c", b"C", 0o755)
    patch = "*** Begin Patch\n" + "".join(
        f"*** Update File: {old}\n*** Move to: {new}\n" for old, new in ("at", "ba", "cb", "tc")
    )
    outcome = bench.tools().apply_patch(patch + "*** End Patch\n")
    assert (outcome.status, outcome.errors) == ("applied", [])
    found = {name: (bench.cat(name), stat.S_IMODE((bench.root / name).stat().st_mode)) for name in "abc"}
    assert found == {"a": (b"B", 0o644), "b": (b"C", 0o755), "c": (b"A", 0o600)}
    assert sorted(os.listdir(bench.root)) == ["a", "b", "c"]
