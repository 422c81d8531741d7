"""Journals that `recover` finds: whose they are, and whether they can be trusted."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from dataclasses import replace

import pytest

from hermes_env import owner_labels
from hermes_env.tools._journal import Before, DamagedJournal, Journal, Touched, decode

from .bench import Bench

OLD, NEW = b"old\xff\n", b"new\n"


def sha(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def journal(bench: Bench, **changes: object) -> Journal:
    """Of an edit that changed `f` and was going to make `g`."""
    real = os.path.realpath(bench.root)
    files = (
        Touched(f"{real}/f", "f", Before(sha(OLD), 0o640), sha(NEW), 0o640, old=OLD),
        Touched(f"{real}/g", "g", None, sha(b"g")),
    )
    gone = subprocess.Popen(["true"])
    gone.wait()
    owner = {name: value.replace(f".{os.getpid()}.", f".{gone.pid}.") for name, value in owner_labels("e").items()}
    made = Journal("e", time.time(), owner, files, tool="apply_patch")
    return replace(made, **changes)  # type: ignore[arg-type] # a test names its fields


def leave(bench: Bench, data: bytes, mode: int = 0o600) -> None:
    """Leave a journal and the files of a half-done edit."""
    bench.put("f", NEW)
    bench.state.mkdir(exist_ok=True)
    (bench.state / "e.journal").write_bytes(data)
    (bench.state / "e.journal").chmod(mode)


def test_a_journal_of_a_dead_client_is_undone(near: Bench) -> None:
    """Bytes and mode come from the journal, which is removed."""
    leave(near, journal(near).encode())
    before = near.tree()
    foreseen = near.tools().recover(dry_run=True)
    assert near.tree() == before and near.journals() == ["e.journal"] and foreseen.swept == ()
    recovery = near.tools().recover()
    assert recovery.edits == foreseen.edits
    assert [(edit.edit_id, edit.done, edit.paths) for edit in recovery.edits] == [("e", "undone", ("f", "g"))]
    assert near.cat("f") == OLD and (near.root / "f").stat().st_mode & 0o777 == 0o640
    assert near.journals() == []


def test_a_living_client_is_left_alone(near: Bench) -> None:
    """A journal of a process that lives, or of another machine and young, stays, unless that is forced."""
    with subprocess.Popen(["sleep", "60"]) as alive:
        with open(f"/proc/{alive.pid}/stat", encoding="ascii") as file:
            start = file.read().rpartition(") ")[2].split()[19]
        label = owner_labels("e")["hermes_env.owner"].rsplit(".", 2)[0]
        owner = {"hermes_env.owner": f"{label}.{alive.pid}.{start}"}
        for kept in (journal(near, owner=owner), journal(near, owner={"hermes_env.owner": "elsewhere.0.0.1.1"})):
            leave(near, kept.encode())
            recovery = near.tools().recover()
            assert [edit.done for edit in recovery.edits] == ["running"] and not recovery.clean
            assert near.cat("f") == NEW and near.journals() == ["e.journal"]
        leave(near, journal(near, owner={}, time=time.time() - 3600).encode())
        assert [edit.done for edit in near.tools().recover().edits] == ["undone"]
        leave(near, journal(near, owner=owner).encode())
        assert [edit.done for edit in near.tools().recover(force=True).edits] == ["undone"]
        alive.kill()
    assert near.cat("f") == OLD


@pytest.mark.parametrize("mode", [0o600, 0o620, 0o602])
def test_a_journal_that_others_could_write_is_not_believed(near: Bench, mode: int) -> None:
    """Damaged journals, those of other users and those that others may write change nothing."""
    whole = journal(near).encode()
    leave(near, whole[:-1] if mode == 0o600 else whole, mode)
    assert [edit.done for edit in near.tools().recover().edits] == ["damaged"]
    assert near.cat("f") == NEW and near.journals() == ["e.journal"]
    if os.geteuid() == 0:
        leave(near, whole)
        os.chown(near.state / "e.journal", 12345, 12345)
        assert [edit.done for edit in near.tools().recover().edits] == ["damaged"]


def test_journals_survive_the_way(near: Bench) -> None:
    """A journal is read as it was written; whatever is cut, added or changed in its head is told as damage."""
    torn = replace(journal(near).files[0], torn=NEW, after_link="x\udcff")
    whole = journal(near, files=(torn, journal(near).files[1]), made=("/a", "/a/b"))
    data = whole.encode()
    assert decode(data) == whole
    for bad in (b"", data[:10], data[:-1], data + b"x", data.replace(b'"files"', b'"filez"'), b"x" + data):
        with pytest.raises(DamagedJournal):
            decode(bad)
