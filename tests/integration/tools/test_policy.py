"""Who may do what, who is asked, who is told, and what is kept."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes_env.tools import Diagnostics, EditEvent, EditOutcome, FilePolicy, FileTools, Retention

from .bench import Bench


def update(path: str, old: str = "a", new: str = "b") -> str:
    """A patch of one line."""
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"


def code(outcome: EditOutcome) -> str | None:
    """Code of the first error."""
    return None if outcome.error is None else outcome.error.code


def test_a_policy_is_asked_about_the_object_that_is_written(bench: Bench) -> None:
    """No spelling leaves the workspace: not `..`, not an absolute path, not a link to a file or a directory."""
    outside = bench.home / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"a\n")
    (bench.root / "dir").symlink_to(outside)
    (bench.root / "file").symlink_to(outside / "f")
    (bench.root / "new").symlink_to(outside / "new")
    before = bench.tree()
    tools = bench.tools()
    for path in ("../outside/f", str(outside / "f"), "dir/f", "file", "dir/../outside/f", "./dir/./f"):
        for outcome in (
            tools.str_replace(path, "a", "b"),
            tools.write_file(path, "x"),
            tools.apply_patch(update(path)),
        ):
            assert code(outcome) == "path_outside_root", (path, outcome)
            assert outcome.error is not None and outcome.error.path == path
        read = tools.read_file(path)
        assert read.error is not None and read.error.code == "path_outside_root" and read.text == ""
    moved = tools.apply_patch("*** Begin Patch\n*** Update File: file\n*** Move to: dir/moved\n*** End Patch\n")
    assert code(moved) == "path_outside_root"
    assert code(tools.write_file("new", "x")) is not None and code(tools.write_file("dir/new", "x")) is not None
    assert (outside / "f").read_bytes() == b"a\n" and os.listdir(outside) == ["f"]
    assert bench.tree() == before
    wide = bench.tools(FilePolicy(workspace=str(bench.root), extra_roots=(str(outside),)))
    assert wide.str_replace("file", "a", "b").ok and (outside / "f").read_bytes() == b"b\n"


def test_a_workspace_behind_a_link(near: Bench) -> None:
    """A root that is a symbolic link is resolved inside, and what is below it is in the workspace."""
    (near.home / "alias").symlink_to("work")
    near.put("f", b"a\n")
    tools = near.tools(FilePolicy(workspace=str(near.home / "alias")))
    assert tools.str_replace("f", "a", "b").ok
    assert tools.str_replace(str(near.root / "f"), "b", "c").ok
    assert near.cat("f") == b"c\n"


@pytest.mark.parametrize("preset", ["codex", "openclaw", "helloagents", "claude_code"])
def test_presets_are_what_their_systems_allow(near: Bench, preset: str) -> None:
    """Each preset allows an ordinary edit and refuses what its system refuses."""
    near.put("f.py", b"a\n")
    near.put(".git/config", b"a\n")
    near.put("tool.exe", b"a\n")
    tools = near.tools(getattr(FilePolicy, preset)(str(near.root)))
    tools.read_file("f.py")
    assert tools.apply_patch(update("f.py")).ok
    if preset == "codex":
        assert code(tools.apply_patch(update(".git/config"))) == "policy_refused"
    if preset == "helloagents":
        assert code(tools.apply_patch(update("tool.exe"))) == "policy_refused"
        assert code(tools.apply_patch(update(str(near.root / "f.py"), "b", "c"))) == "path_outside_root"
        many = "".join(f"*** Add File: n{n}.py\n+x\n" for n in range(11))
        refused = tools.apply_patch(f"*** Begin Patch\n{many}*** End Patch\n")
        assert refused.error is not None and refused.error.message == "Too many files in patch: 11 > 10"
    if preset == "claude_code":
        assert code(tools.apply_patch(update(".git/config"))) == "policy_refused"


def test_confirmation_is_asked_for_by_default(near: Bench) -> None:
    """A delete, six files or 400 lines need a yes; without anybody to ask, or with a no, nothing is changed."""
    near.put("f", b"a\n")
    asked: list[tuple[str, ...]] = []

    def refuse(event: EditEvent, reasons: tuple[str, ...]) -> bool:
        asked.append(reasons)
        return False

    delete = "*** Begin Patch\n*** Delete File: f\n*** End Patch\n"
    six = "*** Begin Patch\n" + "".join(f"*** Add File: n{n}\n+x\n" for n in range(6)) + "*** End Patch\n"
    long = "*** Begin Patch\n*** Add File: long\n" + "+x\n" * 400 + "*** End Patch\n"
    before = near.tree()
    for patch in (delete, six, long):
        assert code(near.tools(confirm=None).apply_patch(patch)) == "confirmation_required"
        assert code(near.tools(confirm=refuse).apply_patch(patch)) == "confirmation_required"
        assert near.tree() == before
    assert asked == [("deletes f",), ("changes 6 files",), ("changes 400 lines",)]
    assert near.tools(confirm=None).apply_patch(long.replace("+x\n", "", 1)).ok


def test_hooks_may_refuse(near: Bench) -> None:
    """A hook sees what would change and refuses with a text or an exception; then nothing is changed."""
    near.put("f", b"a\n")
    seen: list[str] = []

    def hook(event: EditEvent) -> str | None:
        seen.append(event.outcome.diff)
        assert event.outcome.dry_run and event.paths == (os.path.realpath(near.root / "f"),)
        return None if "allowed" in event.outcome.diff else "not today"

    def broken(event: EditEvent) -> str | None:
        raise RuntimeError("no idea")

    refused = near.tools(before=[hook]).str_replace("f", "a", "b")
    assert refused.error is not None and (refused.error.code, refused.error.message) == ("policy_refused", "not today")
    failed = near.tools(before=[broken]).str_replace("f", "a", "b")
    assert failed.error is not None and "no idea" in failed.error.message
    assert near.cat("f") == b"a\n" and len(seen) == 1
    assert near.tools(before=[hook]).str_replace("f", "a", "allowed").ok


class Listener:
    """Writes down what it is told."""

    def __init__(self, name: str = "listener", error: Exception | None = None) -> None:
        self.name, self.error = name, error
        self.events: list[EditEvent] = []

    def after(self, event: EditEvent) -> list[str]:
        """Take an event."""
        if self.error:
            raise self.error
        self.events.append(event)
        return ["heard"]


def test_observers_are_told_and_never_fail_an_edit(near: Bench) -> None:
    """Every applied edit is told with its diff; a failing observer is a warning; one that is off is not told."""
    near.put("f", b"a\n")
    good, bad = Listener(), Listener("bad", RuntimeError("no\ud800 idea"))
    tools = near.tools(observers=[bad, good])
    edited = [tools.had_edits]
    first = tools.str_replace("f", "a", "b")
    assert first.ok and first.side_effects_fired == ["listener"] and first.reports == ["listener: heard"]
    assert any("observer bad failed: RuntimeError" in warning for warning in first.warnings)
    assert tools.str_replace("f", "nothing", "b").side_effects_fired == []
    tools.observers.disable("listener")
    assert tools.str_replace("f", "b", "c").side_effects_fired == []
    tools.observers.enable()
    assert tools.str_replace("f", "c", "d").side_effects_fired == ["listener"]
    assert [event.had_edits for event in good.events] == [False, True]
    assert [*edited, tools.had_edits] == [False, True]
    assert good.events[0].outcome.diff == first.diff and near.cat("f") == b"d\n"
    with pytest.raises(ValueError, match="different names"):
        near.tools(observers=[Listener(), Listener()])


def test_diagnostics_report_what_is_new(bench: Bench) -> None:
    """A checker in the environment runs before and after; what was wrong already is not reported, moved or not."""
    bench.put("f", b"BAD one\nfine\n")
    checker = ["sh", "-c", 'for f; do grep -n BAD "$f" | sed "s|^|$f:|"; done; true', "sh"]
    tools = bench.tools(observers=[Diagnostics(bench.env, checker)])
    clean = tools.insert("f", 0, "new line")
    assert clean.ok and clean.reports == []
    dirty = tools.str_replace("f", "fine", "BAD two")
    assert dirty.reports == [f"diagnostics: {bench.root}/f:3:BAD two"]
    broken = bench.tools(observers=[Diagnostics(bench.env, ["no-such-checker"])]).str_replace("f", "BAD two", "ok")
    assert broken.ok


def test_every_attempt_is_recorded_and_can_be_replayed(near: Bench) -> None:
    """The record has applied and refused attempts with note and tags as JSON lines; replayed it gives the same tree."""
    near.put("f", b"a\xff\n")
    store = near.home / "store"
    tools = near.tools(note="session 7 \udcff", tags={"model": "m"})
    tools.read_file("f")
    tools.str_replace("f", "a", "b")
    tools.apply_patch(update("no"))
    tools.write_file("bin", bytes(range(256)))
    tools.apply_patch("no patch at all")
    tools.insert("f", 1, "x \x1b[1m")
    lines = [json.loads(line) for line in (store / "history.jsonl").read_bytes().splitlines()]
    assert [line["status"] for line in lines] == ["applied", "refused", "applied", "refused", "applied"]
    assert all(line["note"] == "session 7 \udcff" and line["tags"] == {"model": "m"} for line in lines)
    assert lines[1]["arguments"]["patch"] == update("no") and lines[1]["error"]["code"] == "not_found"
    assert lines[3]["error"]["code"] in ("parse_error", "no_operations")
    after, history = near.tree(), tools.history()
    for name in os.listdir(near.root):
        (near.root / name).unlink()
    near.put("f", b"a\xff\n")
    again = near.tools(store_dir=str(near.home / "again"))
    outcomes = [again.replay(entry) for entry in history]
    assert [outcome.status for outcome in outcomes] == [line["status"] for line in lines]
    assert near.tree() == after


def test_backups_are_private_and_are_let_go(near: Bench) -> None:
    """Backups are files of this user only, outside the workspace, and the oldest go when there are too many."""
    near.put("f", b"0\n")
    tools = near.tools(retention=Retention(edits=3))
    edits = [tools.str_replace("f", str(n), str(n + 1)) for n in range(6)]
    backups = sorted((near.home / "store").glob("*.backup"))
    assert [path.stem for path in backups] == [edit.edit_id for edit in edits[3:]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in backups} == {0o600}
    assert stat.S_IMODE((near.home / "store").stat().st_mode) == 0o700
    gone = tools.undo(edits[0].edit_id)
    assert code(gone) == "not_found"
    assert tools.undo().ok and near.cat("f") == b"5\n"
    assert tools.undo().ok and near.cat("f") == b"4\n"


def test_old_backups_of_other_environments_go(near: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backups of an environment that nobody opens again go after some days, their record stays."""
    monkeypatch.setenv("XDG_STATE_HOME", str(near.home / "xdg"))
    other = near.home / "xdg" / "hermes-env" / "edits" / "other"
    other.mkdir(parents=True)
    for name, age in (("old.backup", 31), ("young.backup", 29), ("history.jsonl", 99)):
        (other / name).write_bytes(b"x")
        long_ago = (other / name).stat().st_mtime - age * 86_400
        os.utime(other / name, (long_ago, long_ago))
    near.put("f", b"a\n")
    assert near.tools(store_dir=None).str_replace("f", "a", "b").ok
    assert sorted(os.listdir(other)) == ["history.jsonl", "young.backup"]


def test_an_edit_without_room_for_its_backup_is_refused(near: Bench, tmp_path: Path) -> None:
    """Where no backup can be kept nothing is changed."""
    near.put("f", b"a\n")
    (tmp_path / "file").write_bytes(b"")
    outcome = near.tools(store_dir=str(tmp_path / "file" / "store")).str_replace("f", "a", "b")
    assert code(outcome) == "write_failed" and near.cat("f") == b"a\n"


def test_bad_arguments_are_outcomes_or_errors(near: Bench) -> None:
    """What a model can get wrong is an outcome with a code; what a programmer gets wrong is an exception."""
    near.put("f", b"a\n")
    before = near.tree()
    tools = near.tools()
    cases: list[tuple[EditOutcome, str]] = [
        (tools.str_replace("f", "a", "a"), "invalid_argument"),
        (tools.str_replace("f", "", "x"), "already_exists"),
        (tools.str_replace("no", "a", "b"), "not_found"),
        (tools.str_replace(".", "a", "b"), "is_directory"),
        (tools.str_replace("f/x", "a", "b"), "not_found"),
        (tools.str_replace("", "a", "b"), "path_invalid"),
        (tools.str_replace("a\0b", "a", "b"), "path_invalid"),
        (tools.str_replace("~/f", "a", "b"), "path_invalid"),
        (tools.insert("f", 9, "x"), "invalid_argument"),
        (tools.write_file("f", "é", encoding="no-such"), "invalid_argument"),
        (tools.write_file("f", "\ud800"), "encoding_unsupported"),
        (tools.write_file("n" * 300, "x"), "path_invalid"),
        (tools.write_file("/".join(["n" * 200] * 30), "x"), "path_invalid"),
        (tools.apply_patch(update("f"), eol="x"), "invalid_argument"),
        (tools.apply_patch(update("f"), compat="x"), "invalid_argument"),  # type: ignore[arg-type]
        (tools.apply_patch("x" * (6 << 20)), "too_large"),
        (tools.undo("../x"), "invalid_argument"),
        (tools.undo("no"), "not_found"),
    ]
    assert [(code(outcome), wanted) for outcome, wanted in cases] == [(wanted, wanted) for _, wanted in cases]
    assert near.tree() == before
    wrong: list[dict[str, Any]] = [{"backups": "x"}, {"hardlinks": "x"}, {"state_dir": "x"}, {"dialect": "x"}]
    for settings in wrong:
        with pytest.raises(ValueError, match="must be"):
            FileTools(near.env, **settings)


def test_large_files_cost_one_copy_each_way(near: Bench) -> None:
    """A file of 20 MiB is edited in one place; its digest is that of the same edit by another program."""
    path = near.put("big", b"x" * 9 + b"\n")
    with path.open("wb") as file:
        for number in range(200_000):
            file.write(b"%0100d\n" % number)
    line = b"%0100d" % 123_456
    expected = hashlib.sha256(path.read_bytes().replace(line, b"here\xe2\x82\xac"))
    outcome = near.tools().str_replace("big", line.decode(), "here€")
    assert outcome.ok and outcome.after_sha256 == expected.hexdigest()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected.hexdigest()
    small = near.tools(FilePolicy(workspace=str(near.root), max_file_bytes=1 << 20)).str_replace("big", "here", "x")
    assert code(small) == "too_large"


def test_the_backup_of_a_large_file_holds_what_was_changed(near: Bench) -> None:
    """Undo of a small change of a large file needs no whole copy of it, and believes no damaged one."""
    line = b"%099d\n"
    old = b"\xef\xbb\xbf" + b"".join(line % number for number in range(20_000)) + b"\xff end"
    path = near.put("big", old, 0o640)
    tools = near.tools()
    patch = "".join(f"@@\n-{number:099d}\n+new {number}\n" for number in (0, 7, 8, 19_999))
    done = tools.apply_patch(f"*** Begin Patch\n*** Update File: big\n{patch}*** End Patch\n")
    assert done.ok
    backup = near.home / "store" / f"{done.edit_id}.backup"
    kept = backup.read_bytes()
    assert len(kept) < 10_000
    backup.write_bytes(kept.replace(line % 7, line % 9))
    assert code(tools.undo()) == "not_found" and b"new 7\n" in path.read_bytes()
    backup.write_bytes(kept.replace(b'"back": [[', b'"back": [[9'))
    assert code(tools.undo()) == "not_found"
    backup.write_bytes(kept)
    again = tools.undo()
    assert again.ok and path.read_bytes() == old and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert tools.undo(again.edit_id).ok and b"new 7\n" in path.read_bytes()
    assert tools.write_file("big", "x").ok and (near.home / "store").stat()
    assert tools.undo().ok and b"new 19999\n" in path.read_bytes()
