"""Reading and editing: what arrives in the files, seen by other programs."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_env.tools import EditOutcome, FilePolicy
from tests.unit.tools._cases import load

from .bench import Bench

CASES = sorted((Path(__file__).parents[2] / "unit" / "tools" / "cases").glob("*.*"))
PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old = 1
+new = 2
*** Add File: made/by/patch
+hello
*** Delete File: gone
*** Update File: from
*** Move to: to/here
*** End Patch
"""


def fill(bench: Bench) -> None:
    """Files for `PATCH`."""
    bench.put("src/a.py", b"\xef\xbb\xbf# caf\xe9\r\nold = 1\r\nend", 0o750)
    bench.put("gone", b"\x00\x01", 0o600)
    bench.put("from", b"#!/bin/sh\n", 0o755)
    bench.put("other", b"stays")


def test_a_patch_changes_what_it_says_and_nothing_else(bench: Bench) -> None:
    """Add, update, move and delete arrive byte for byte; modes, bytes and names of all else stay."""
    fill(bench)
    outcome = bench.tools().apply_patch(PATCH)
    assert (outcome.status, outcome.errors, outcome.stale_check) == ("applied", [], "passed")
    assert bench.cat("src/a.py") == b"\xef\xbb\xbf# caf\xe9\r\nnew = 2\r\nend"
    assert stat.S_IMODE((bench.root / "src/a.py").stat().st_mode) == 0o750
    assert bench.cat("made/by/patch") == b"hello\n"
    assert stat.S_IMODE((bench.root / "to/here").stat().st_mode) == 0o755
    assert not (bench.root / "gone").exists() and not (bench.root / "from").exists()
    assert bench.cat("other") == b"stays"
    assert {file.path: file.operation for file in outcome.changed_files} == {
        "src/a.py": "update", "made/by/patch": "add", "gone": "delete", "to/here": "move",
    }  # fmt: skip
    assert (bench.journals(), bench.left_over()) == ([], [])


def test_an_edit_is_undone(bench: Bench) -> None:
    """Undo puts back bytes, modes, names and directories, once, and only while the files are as the edit left them."""
    fill(bench)
    before = bench.tree()
    tools = bench.tools()
    done = tools.apply_patch(PATCH)
    after = bench.tree()
    undone = tools.undo(done.edit_id)
    assert (undone.status, undone.errors) == ("applied", [])
    assert bench.tree() == before
    assert tools.undo().error is not None
    redone = tools.undo(undone.edit_id)
    assert redone.ok and bench.tree() == after
    bench.put("src/a.py", b"changed by somebody", 0o750)
    late = bench.tree()
    refused = tools.undo(done.edit_id)
    assert refused.error is not None and refused.error.code == "stale"
    assert bench.tree() == late
    assert [entry.status for entry in tools.history()] == ["applied", "applied", "refused", "applied", "refused"]


def test_backups_may_stay_inside(bench: Bench) -> None:
    """With backups in the environment nothing of the old bytes is on this machine, and undo works all the same."""
    fill(bench)
    before = bench.tree()
    tools = bench.tools(backups="environment")
    done = tools.apply_patch(PATCH)
    assert [name.rpartition(".")[2] for name in bench.journals()] == ["kept"]
    assert not list((bench.home / "store").glob("*.backup"))
    assert bench.tools(backups="environment").undo(done.edit_id).ok
    assert bench.tree() == before


def test_a_refused_patch_changes_nothing(bench: Bench) -> None:
    """One operation that cannot be done stops all; every reason is told, and no file is touched."""
    fill(bench)
    before = bench.tree()
    bad = PATCH.replace("*** End Patch", "*** Delete File: no\n*** Add File: other\n+x\n*** End Patch")
    outcome = bench.tools().apply_patch(bad)
    assert outcome.status == "refused"
    assert [(error.code, error.path) for error in outcome.errors] == [("not_found", "no"), ("already_exists", "other")]
    assert all(error.patch_line for error in outcome.errors)
    assert bench.tree() == before
    assert (bench.journals(), bench.left_over()) == ([], [])


def test_a_dry_run_changes_nothing_and_tells_the_same(bench: Bench) -> None:
    """A dry run has the diff of the edit that follows, and leaves no trace."""
    fill(bench)
    before = bench.tree()
    tools = bench.tools()
    dry = tools.apply_patch(PATCH, dry_run=True)
    assert dry.dry_run and dry.ok and bench.tree() == before and tools.history() == []
    wet = tools.apply_patch(PATCH)
    assert (wet.diff, wet.bytes_changed) == (dry.diff, dry.bytes_changed)


def test_twenty_files_in_four_round_trips(bench: Bench) -> None:
    """Twenty files take four scripts where files are carried by scripts; one that is there takes two, to undo too."""
    for number in range(20):
        bench.put(f"d{number % 3}/f{number}", b"a\nb\n")
    body = "".join(f"*** Update File: d{n % 3}/f{n}\n@@\n-b\n+c{n}\n" for n in range(20))
    tools = bench.tools()
    outcome = tools.apply_patch(f"*** Begin Patch\n{body}*** End Patch\n")
    assert outcome.ok and len(outcome.changed_files) == 20
    assert all(bench.cat(f"d{n % 3}/f{n}") == f"a\nc{n}\n".encode() for n in range(20))
    assert len(bench.scripts) == (0 if bench.kind == "native" else 4)
    bench.scripts.clear()
    assert tools.str_replace("d0/f0", "c0", "x").ok
    assert len(bench.scripts) == (0 if bench.kind == "native" else 2)
    bench.scripts.clear()
    assert tools.undo().ok and bench.cat("d0/f0") == b"a\nc0\n"
    assert len(bench.scripts) == (0 if bench.kind == "native" else 2)


def test_str_replace_write_and_insert(bench: Bench) -> None:
    """The tools for one file keep what they do not touch, and tell digests that other programs find."""
    bench.put("f", b"one\r\ntwo\xff\r\nthree", 0o640)
    tools = bench.tools()
    first = tools.str_replace("f", "one", "$1 \\n")
    assert bench.cat("f") == b"$1 \\n\r\ntwo\xff\r\nthree"
    assert first.after_sha256 == hashlib.sha256(bench.cat("f")).hexdigest()
    assert tools.insert("f", 3, "four").ok
    assert bench.cat("f") == b"$1 \\n\r\ntwo\xff\r\nthree\r\nfour\r\n"
    assert tools.write_file("f", b"\x00raw").ok and bench.cat("f") == b"\x00raw"
    assert stat.S_IMODE((bench.root / "f").stat().st_mode) == 0o640
    assert tools.write_file("new/dir/file", "text").ok and bench.cat("new/dir/file") == b"text"
    assert tools.write_file("f", b"\x00raw").status == "unchanged"
    bench.put("bom", b"\xef\xbb\xbfold\n")
    assert tools.write_file("bom", "new\n").ok and bench.cat("bom") == b"\xef\xbb\xbfnew\n"


def test_reading_tells_beside_the_text_what_it_left_out(bench: Bench) -> None:
    """Text, binary files, directories and FIFOs are read as such; notices never stand in the text."""
    bench.put("long", b"".join(b"line %d\n" % n for n in range(1, 3001)))
    bench.put("odd", b"caf\xe9\r\nend")
    bench.put("bin", bytes(range(256)))
    os.mkfifo(bench.root / "pipe")
    (bench.root / "link").symlink_to("odd")
    tools = bench.tools(fifo_deadline=0.5)
    long = tools.read_file("long")
    assert (long.first, long.last, long.total) == (1, 2000, 3000)
    assert long.text.splitlines() == [f"line {n}" for n in range(1, 2001)]
    assert any("2001" in note for note in long.notes)
    assert tools.read_file("long", 2999).text == "line 2999\nline 3000\n"
    odd = tools.view("odd", [1, -1])
    assert odd.text == "1: caf\\xe9\n2: end\n"
    assert (odd.encoding, odd.eol, odd.final_newline, odd.mode) == ("unknown-8bit", "crlf", False, "0644")
    assert odd.sha256 == hashlib.sha256(b"caf\xe9\r\nend").hexdigest()
    assert (tools.read_file("bin").kind, tools.read_file("bin").text) == ("binary", "")
    listing = tools.view(".")
    assert listing.kind == "directory" and "link -> odd\n" in listing.text
    silent = tools.read_file("pipe")
    assert silent.error is not None and silent.error.code == "not_regular"
    missing = tools.read_file("no")
    assert missing.error is not None and missing.error.code == "not_found"
    assert tools.read_file("long", 4000).error is not None


def test_a_fifo_is_read_as_far_as_it_goes(bench: Bench) -> None:
    """What a writer puts into a FIFO is shown; one that stays open is left after the deadline, with a note."""
    os.mkfifo(bench.root / "pipe")
    for command, note in (("printf 'a\\nb\\n' >pipe", False), ("{ printf 'a\\nb\\n'; exec sleep 60; } >pipe", True)):
        with subprocess.Popen(["sh", "-c", command], cwd=bench.root) as writer:
            seen = bench.tools(fifo_deadline=30.0 if not note else 3.0).read_file("pipe")
            writer.kill()
        assert (seen.kind, seen.text, seen.size) == ("fifo", "a\nb\n", 4)
        assert any("3 s" in one for one in seen.notes) == note


def test_a_stale_file_is_not_overwritten(bench: Bench) -> None:
    """A file that changed since it was read, or has another digest than told, keeps the other one's bytes."""
    path = bench.put("f", b"mine\n")
    tools = bench.tools()
    tools.read_file("f")
    state = path.stat()
    path.write_bytes(b"hers\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    for outcome in (
        tools.write_file("f", "new\n"),
        tools.write_file("f", "new\n", if_sha256=hashlib.sha256(b"mine\n").hexdigest()),
        tools.apply_patch(
            "*** Begin Patch\n*** Update File: f\n@@\n-hers\n+x\n*** End Patch\n", if_sha256={"f": "0" * 64}
        ),
    ):
        assert outcome.error is not None and (outcome.error.code, outcome.stale_check) == ("stale", "failed")
    assert bench.cat("f") == b"hers\n"
    tools.read_file("f")
    assert tools.write_file("f", "new\n").ok and bench.cat("f") == b"new\n"


def test_reading_first_may_be_demanded(near: Bench) -> None:
    """With `read_before_write` a file is changed only after it was read, and not if it changed since."""
    near.put("f", b"a\n")
    tools = near.tools(FilePolicy.claude_code(str(near.root)))
    first = tools.str_replace("f", "a", "b")
    assert first.error is not None and "not been read" in first.error.message
    tools.read_file("f")
    near.put("f", b"a \n")
    second = tools.str_replace("f", "a", "b")
    assert second.error is not None and second.error.code == "stale"
    tools.read_file("f")
    assert tools.str_replace("f", "a", "b").ok and tools.str_replace("f", "b", "c").ok
    assert tools.write_file("new", "x").ok
    assert near.cat("f") == b"c \n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owners_and_special_bits_go_with_a_file(bench: Bench) -> None:
    """A file that is updated, moved with an edit, or made again by undo belongs to whom it did, set-user-ID too."""
    path = bench.put("f", b"a\n")
    os.chown(path, 1234, 4321)
    path.chmod(0o4750)

    def state(name: str) -> tuple[int, int, int]:
        found = (bench.root / name).stat()
        return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)

    tools = bench.tools()
    assert tools.str_replace("f", "a", "b").ok and state("f") == (1234, 4321, 0o4750)
    moved = tools.apply_patch("*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-b\n+c\n*** End Patch\n")
    assert moved.ok and state("g") == (1234, 4321, 0o4750)
    assert tools.undo().ok and state("f") == (1234, 4321, 0o4750) and not (bench.root / "g").exists()
    assert tools.apply_patch("*** Begin Patch\n*** Delete File: f\n*** End Patch\n").ok
    assert tools.undo().ok and state("f") == (1234, 4321, 0o4750) and bench.cat("f") == b"b\n"


def test_editors_of_one_process_take_turns(near: Bench) -> None:
    """Eight threads that edit one file through two spellings, each with tools of its own, lose no edit."""
    near.put("f", b"".join(b"slot%d=\n" % n for n in range(8)))
    (near.root / "way").symlink_to(".")
    outcomes: list[EditOutcome] = []

    def work(number: int) -> None:
        path = "f" if number % 2 else "way/f"
        outcomes.append(near.tools().str_replace(path, f"slot{number}=", f"slot{number}=done"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.errors for outcome in outcomes] == [[]] * 8
    assert near.cat("f") == b"".join(b"slot%d=done\n" % n for n in range(8))


def test_nasty_names_and_bytes_survive(bench: Bench) -> None:
    """Names with blanks, quotes, line noise and bytes that are no UTF-8, and escape sequences in texts, arrive."""
    for number, name in enumerate(["a b", "-n", "$x`y`", "quote'\"", "caf\udce9", "tab\there", "*?["]):
        text = f"\x1b[1m{number}\x07 *** End Patch \\x00 \u202e\n"
        outcome = bench.tools().write_file(name, text)
        assert (outcome.status, outcome.errors) == ("applied", [])
        assert bench.cat(name) == text.encode()
        assert bench.tools().str_replace(name, f"{number}\x07", f"{number}\x07\x07").ok
        assert bench.cat(name) == text.replace("\x07", "\x07\x07").encode()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_cases_end_to_end(near: Bench, case: Path) -> None:
    """Every case of the pure planner has the same end on disk, and a refused one changes nothing."""
    told = load(case)
    for name, data in told.before.items():
        near.put(name, data)
    before = near.tree()
    options: dict[str, Any] = {key: told.options[key] for key in ("compat", "encoding") if key in told.options}
    options |= {name: True for name in ("lenient", "overwrite", "idempotent") if told.options.get(name) == "yes"}
    outcome = near.tools(FilePolicy(workspace=str(near.root), allow_absolute=True)).apply_patch(told.patch, **options)
    if "Environment ID" in told.patch:
        assert outcome.error is not None and outcome.error.code == "environment_mismatch"
        return
    if told.errors and options.get("compat") != "codex":
        assert not outcome.ok and near.tree() == before
        return
    found = {
        os.fsdecode(os.path.relpath(path, near.root)): path.read_bytes()
        for path in near.root.rglob("*")
        if path.is_file()
    }
    assert found == told.after
    assert (near.journals(), near.left_over()) == ([], [])
