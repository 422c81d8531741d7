"""`hermes-env patch`, `edit`, `history`, `undo` and `recover`, as people run them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import Run

PATCH = b"*** Begin Patch\n*** Update File: f\n@@\n-b\n+c\x1b[2J\n*** Add File: new/x\n+x\n*** End Patch\n"


@pytest.fixture
def place(folder: Path) -> Path:
    """A workspace with a file."""
    (folder / "work").mkdir()
    (folder / "work" / "f").write_bytes(b"a\r\nb\r\n\xff")
    return folder / "work"


@pytest.fixture
def edit(run: Run, folder: Path, place: Path) -> Run:
    """Run a command on the workspace, its record in the test's folder."""

    def call(command: str, *arguments: str, **settings: object) -> subprocess.CompletedProcess[bytes]:
        variables = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder / "home")}
        return run(command, "local", *arguments, "--workspace", str(place), variables=variables, **settings)

    return call


def test_patch_dry_run_apply_and_undo(edit: Run, place: Path) -> None:
    """A dry run prints the diff of the patch that follows; history names it; undo puts all back."""
    dry = edit("patch", "--dry-run", input=PATCH)
    assert dry.returncode == 0 and (place / "f").read_bytes() == b"a\r\nb\r\n\xff"
    done = edit("patch", input=PATCH)
    assert (done.returncode, done.stdout) == (0, dry.stdout)
    assert (place / "f").read_bytes() == b"a\r\nc\x1b[2J\r\n\xff" and (place / "new/x").read_bytes() == b"x\n"
    assert b"changed 2 files, edit " in done.stderr
    record = json.loads(edit("history", "--json").stdout)
    assert (record["tool"], record["status"]) == ("apply_patch", "applied")
    assert record["edit_id"].encode() in done.stderr and edit("history").stdout.count(b"\n") == 1
    assert edit("undo").returncode == 0
    assert (place / "f").read_bytes() == b"a\r\nb\r\n\xff" and not (place / "new").exists()


def test_a_deletion_is_confirmed(edit: Run, place: Path) -> None:
    """A patch that deletes a file is refused until --yes is said."""
    patch = b"*** Begin Patch\n*** Delete File: f\n*** End Patch\n"
    refused = edit("patch", input=patch)
    assert refused.returncode == 1 and b"--yes" in refused.stderr and (place / "f").exists()
    assert edit("patch", "--yes", input=patch).returncode == 0 and not (place / "f").exists()


def test_colours_never_let_contents_through(edit: Run) -> None:
    """With colours, escape sequences of contents are shown as text, and only ours remain."""
    shown = edit("patch", "--dry-run", "--color", "always", input=PATCH).stdout
    assert b"\x1b[32m+c\\x1b[2J\\x0d\x1b[0m" in shown and b"\x1b[2J" not in shown
    assert b"\x1b" in edit("patch", "--dry-run", "--color", "never", input=PATCH).stdout


def test_edit_replaces_and_inserts(edit: Run, place: Path, tmp_path: Path) -> None:
    """`edit` takes texts from arguments, files and stdin, and leaves all other bytes."""
    assert edit("edit", "f", "--old", "b", "--new-file", "-", input=b"x").returncode == 0
    (tmp_path / "text").write_bytes(b"new line")
    assert edit("edit", "f", "--insert-line", "1", "--new-file", str(tmp_path / "text")).returncode == 0
    assert (place / "f").read_bytes() == b"a\r\nnew line\r\nx\r\n\xff"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["edit", "f", "--old", "no", "--new", "x"], 1, b"[context_not_found]"),
        (["edit", "f", "--new", "x"], 2, b"--old"),
        (["edit", "f", "--old", "a", "--old-file", "x"], 2, b"contradicts"),
        (["edit", "../cli_plugin.py", "--old", "a", "--new", "b"], 1, b"[path_outside_root]"),
        (["undo"], 1, b"[not_found]"),
        (["undo", "nothing"], 1, b"[not_found]"),
        (["recover"], 0, b"0 broken edits"),
        (["recover", "--dry-run"], 0, b"0 broken edits found, nothing was changed"),
        (["patch", "/nowhere/patch"], 1, b"/nowhere/patch"),
    ],
)
def test_what_is_refused(edit: Run, place: Path, arguments: list[str], code: int, said: bytes) -> None:
    """A refusal has one line with its code, an exit code, and changes nothing."""
    done = edit(*arguments)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert (place / "f").read_bytes() == b"a\r\nb\r\n\xff"


def test_json_is_the_whole_outcome(edit: Run) -> None:
    """With --json the outcome is on stdout, refused or not."""
    outcome = json.loads(edit("edit", "f", "--old", "no", "--new", "x", "--json").stdout)
    assert (outcome["ok"], outcome["error"]["code"]) == (False, "context_not_found")


def test_a_workspace_that_is_none(run: Run) -> None:
    """A directory that does not exist is wrong usage."""
    done = run("recover", "local", "--workspace", "/nowhere/at/all")
    assert done.returncode == 2 and b"--workspace" in done.stderr


def test_help_names_every_parameter_once(run: Run) -> None:
    """All five commands take a backend, its options and a workspace; those that edit take a dry run and colours."""
    for command in ("patch", "edit", "undo", "history", "recover"):
        told = run(command, "--help").stdout
        wanted = [b"NAME", b"--workspace", b"--option", b"--options-file"]
        wanted += [b"--dry-run"] * (command != "history") + [b"--color"] * (command in ("patch", "edit", "undo"))
        for name in wanted:
            assert name in told, (command, name)
