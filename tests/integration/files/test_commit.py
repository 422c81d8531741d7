"""Batches: all changes or none."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import Change, FileChanged, InvalidArgument, MakeDir, Move, Remove, VerificationError, Write

from .conftest import ShellEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hermes_env import Change

    from .conftest import Place


def tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: mode and content or target."""
    found = {}
    for path in sorted(directory.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else b""
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
        found[str(path.relative_to(directory))] = (stat.S_IMODE(path.lstat().st_mode), content)
    return found


def fill(place: Place) -> None:
    """Files that the batches below work on."""
    place.put("a", b"old a", 0o640)
    place.put("b", b"old b")
    place.put("gone", b"going", 0o755)
    place.put("from", b"moving")
    place.put("linked", b"old linked")
    os.link(place.dir / "linked", place.dir / "second")
    (place.dir / "tree" / "sub").mkdir(parents=True)
    (place.dir / "tree" / "sub" / "x").write_bytes(b"deep")
    (place.dir / "link").symlink_to("b")
    for name in ("tree", "tree/sub", "tree/sub/x"):
        place.own(place.dir / name)


def good() -> list[Change]:
    """Changes of every kind that all apply."""
    return [
        Write(path="a", data=b"new a"),
        MakeDir(path="made"),
        Write(path="made/new", data=iter([b"new", b"\0" * 70_000])),
        Remove(path="gone"),
        Move(path="from", dst="made/to"),
        Write(path="link", data=b"new b"),
        Write(path="linked", data=b"new linked"),
        Remove(path="tree", recursive=True),
        Write(path="empty", data=b""),
    ]


@pytest.mark.users
@pytest.mark.shells
def test_batch_applies(place: Place) -> None:
    """Changes of every kind are applied in one commit, with a result for each write."""
    fill(place)
    results = place.files.commit(good())
    assert [result and result.path for result in results] == [
        "a", None, "made/new", None, None, "link", "linked", None, "empty",
    ]  # fmt: skip
    assert all(result.verified for result in results if result)
    assert [result.created for result in results if result] == [False, True, False, False, True]
    assert [result.atomic for result in results if result] == [True, True, True, False, True]
    assert place.cat("a") == b"new a"
    assert stat.S_IMODE((place.dir / "a").stat().st_mode) == 0o640
    assert place.cat("made/new") == b"new" + b"\0" * 70_000
    assert place.cat("made/to") == b"moving"
    assert (place.cat("b"), place.cat("second"), place.cat("empty")) == (b"new b", b"new linked", b"")
    assert sorted(os.listdir(place.dir)) == ["a", "b", "empty", "link", "linked", "made", "second"]
    assert place.left_over() == []


BREAKERS: dict[str, tuple[Callable[[], Change], int]] = {
    "missing-file": (lambda: Remove(path="nothing"), errno.ENOENT),
    "missing-parent": (lambda: Write(path="no/x", data=b""), errno.ENOENT),
    "existing-dst": (lambda: Move(path="b", dst="second"), errno.EEXIST),
    "if-absent": (lambda: Write(path="b", data=b"", if_absent=True), errno.EEXIST),
    "directory": (lambda: MakeDir(path="b"), errno.EEXIST),
}


@pytest.mark.shells
@pytest.mark.parametrize("breaker", BREAKERS)
@pytest.mark.parametrize("first", [True, False])
def test_one_failure_stops_all(place: Place, breaker: str, first: bool) -> None:
    """When one change cannot be applied nothing is changed, and the error names its path."""
    fill(place)
    before = tree(place.dir)
    make, code = BREAKERS[breaker]
    change = make()
    changes = [change, *good()] if first else [*good(), change]
    with pytest.raises(OSError, match="Errno") as caught:
        place.files.commit(changes)
    assert caught.value.errno == code
    assert caught.value.filename == (change.dst if isinstance(change, Move) else change.path)
    assert tree(place.dir) == before


def test_digest_mismatch_stops_all(place: Place) -> None:
    """An expectation that does not hold, on any kind of change, leaves everything as it was."""
    fill(place)
    before = tree(place.dir)
    wrong = hashlib.sha256(b"other").hexdigest()
    for change in (
        Write(path="b", data=b"x", if_sha256=wrong),
        Remove(path="b", if_sha256=wrong),
        Move(path="b", dst="c", if_sha256=wrong),
    ):
        with pytest.raises(FileChanged, match="b: holds other bytes"):
            place.files.commit([*good(), change])
        assert tree(place.dir) == before


def test_right_digests_apply(place: Place) -> None:
    """Expectations that hold let changes of every kind through."""
    fill(place)
    old = {name: hashlib.sha256((place.dir / name).read_bytes()).hexdigest() for name in ("a", "b", "gone")}
    place.files.commit(
        [
            Write(path="a", data=b"x", if_sha256=old["a"]),
            Remove(path="gone", if_sha256=old["gone"]),
            Move(path="b", dst="c", if_sha256=old["b"]),
            Write(path="fresh", data=b"y", if_absent=True),
        ]
    )
    assert (place.cat("a"), place.cat("c"), place.cat("fresh")) == (b"x", b"old b", b"y")


@pytest.mark.users
def test_failure_while_committing_is_rolled_back(place: Place) -> None:
    """A change that fails after others were made visible takes them back, byte for byte and mode for mode."""
    if place.user == "root":
        pytest.skip("root is not stopped by permissions")
    fill(place)
    (place.dir / "closed").mkdir()
    (place.dir / "closed" / "x").write_bytes(b"stays")
    before = tree(place.dir)
    # Seen by nothing but the removal itself: the directory is readable and not writable.
    with pytest.raises(PermissionError) as caught:
        place.files.commit([*good(), Remove(path="closed/x")])
    assert caught.value.filename == "closed/x"
    assert tree(place.dir) == before
    assert (place.dir / "linked").stat().st_ino == (place.dir / "second").stat().st_ino


def test_failing_data_stops_all(place: Place) -> None:
    """When the data of one write raises, nothing is changed."""
    fill(place)
    before = tree(place.dir)

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        place.files.commit([*good(), Write(path="late", data=broken())])
    assert tree(place.dir) == before


def test_overwriting_moves(place: Place) -> None:
    """A move that replaces a file is part of the batch, and taken back with it."""
    fill(place)
    before = tree(place.dir)
    with pytest.raises(FileNotFoundError):
        place.files.commit([Move(path="a", dst="b", overwrite=True), Remove(path="nothing")])
    assert tree(place.dir) == before
    place.files.commit([Move(path="a", dst="b", overwrite=True), Remove(path="gone")])
    assert place.cat("b") == b"old a"
    assert not (place.dir / "a").exists()


def test_what_is_refused_before_anything_runs(place: Place) -> None:
    """A path named twice and objects that are no changes are refused; no change is no work."""
    assert place.files.commit([]) == ()
    with pytest.raises(InvalidArgument, match="more than once"):
        place.files.commit([Write(path="x", data=b""), Move(path="y", dst="x")])
    with pytest.raises(InvalidArgument, match="no change"):
        place.files.commit([("path", b"data")])  # type: ignore[list-item]
    assert os.listdir(place.dir) == []


def test_twenty_files_in_one_round_trip(scripted: Place) -> None:
    """Stat, read, listing, write, and batches of twenty files take one run of the environment each."""
    names = [f"file {number}" for number in range(20)]
    env = scripted.env
    assert isinstance(env, ShellEnvironment)
    calls: list[Callable[[], object]] = [
        lambda: scripted.files.commit([Write(path=name, data=name.encode() * 999) for name in names]),
        lambda: scripted.files.read_many(names),
        lambda: scripted.files.stat(names[0]),
        lambda: scripted.files.read_bytes(names[0]),
        lambda: scripted.files.write_bytes("one", b"x" * 200_000),
        lambda: scripted.files.write_bytes("two", iter([b"x" * 200_000, b"y"])),
        lambda: scripted.files.list_dir("."),
        lambda: scripted.files.sha256("one"),
        lambda: scripted.files.remove("one"),
    ]
    for call in calls:
        before = env.runs
        call()
        assert env.runs - before == 1
    assert scripted.files.read_many(names) == {name: name.encode() * 999 for name in names}


def test_conditional_writes_of_many_threads(place: Place) -> None:
    """Of many writers that expect the same bytes exactly one succeeds, round after round."""
    if place.user == "nobody" and place.native:
        pytest.skip("the effective user is one for all threads")
    place.put("file", b"0")
    won: list[bytes] = []
    for number in range(3):
        expected = hashlib.sha256(place.cat("file")).hexdigest()
        values = [f"{number}.{writer}".encode() for writer in range(4)]

        def attempt(value: bytes, expected: str = expected) -> None:
            try:
                place.files.write_bytes("file", value, if_sha256=expected)
            except FileChanged:
                return
            won.append(value)

        threads = [threading.Thread(target=attempt, args=(value,)) for value in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == number + 1
        assert place.cat("file") == won[-1]


def test_a_late_failure_leaves_nothing_of_later_changes(scripted: Place) -> None:
    """When a rename fails, temporary files and directories of the changes behind it go too."""
    fill(scripted)
    before = tree(scripted.dir)
    run = scripted.env.run_script

    def failing(script: str, *args: Any, **settings: Any) -> Any:
        changed = script.replace("N=$1; shift\n", "N=$1; shift\nmv() { return 1; }\n")
        assert changed != script
        return run(changed, *args, **settings)

    scripted.env.run_script = failing  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Errno"):
        scripted.files.commit(
            [
                Write(path="a", data=b"new"),
                Write(path="tree/later", data=b"new"),
                MakeDir(path="made/deep", parents=True),
                Write(path="other/deep/x", data=b"", make_parents=True),
            ]
        )
    assert tree(scripted.dir) == before


@pytest.mark.shells
def test_a_digest_that_the_caller_tells_is_what_the_file_must_have(place: Place) -> None:
    """A known digest of the data is taken for it: the file is compared with that, and a wrong one changes nothing."""
    place.put("f", b"old")
    right = hashlib.sha256(b"new").hexdigest()
    old = hashlib.sha256(b"old").hexdigest()
    with pytest.raises(VerificationError):
        place.files.commit([Write(path="f", data=b"new", sha256="0" * 64)])
    assert place.cat("f") == b"old" and place.left_over() == []
    for wrong in (b"older", b"ol"):
        # What the bytes are said to be does not stand in for their digest.
        place.files.commit([Write(path="f", data=b"old", if_sha256=old, if_bytes=wrong)])
        with pytest.raises(FileChanged):
            place.files.commit([Write(path="f", data=b"new", if_sha256=right, if_bytes=wrong)])
    (done,) = place.files.commit([Write(path="f", data=b"new", sha256=right.upper(), if_sha256=old, if_bytes=b"old")])
    assert done is not None and (done.sha256, done.verified) == (right, True) and place.cat("f") == b"new"
    for bad in (Write(path="f", data=iter([b"x"]), sha256=right), Write(path="f", data=b"x", if_bytes=b"new")):
        with pytest.raises(InvalidArgument):
            place.files.commit([bad])


@pytest.mark.users
def test_a_file_is_given_to_its_owner_or_loses_his_rights(place: Place) -> None:
    """With `owner` a file belongs to that user; where that cannot be, it has no set-user-ID and set-group-ID bits."""
    place.put("old", b"old")
    changes = [Write(path=name, data=b"new", mode=0o6755, owner=(4242, 2424)) for name in ("new", "old")]
    place.files.commit(changes)
    for name in ("new", "old"):
        found = (place.dir / name).stat()
        mode = stat.S_IMODE(found.st_mode)
        if place.user == "root":
            assert (found.st_uid, found.st_gid, mode) == (4242, 2424, 0o6755)
        else:
            assert (found.st_uid == 4242, mode) == (False, 0o755)
    with pytest.raises(InvalidArgument):
        place.files.commit([Write(path="x", data=b"", owner=(-1, 0))])
