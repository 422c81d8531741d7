"""Changes made together where several names lead to one file, and links that are made with them."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from hermes_env import Change, InvalidArgument, MakeDir, Move, Remove, Write
from hermes_env.files import NotReplaceable, Symlink

if TYPE_CHECKING:
    from hermes_env import Change

    from .conftest import Place


@pytest.mark.once
@pytest.mark.parametrize("other", ["./k", ".//k", "././k"])
def test_one_path_in_two_spellings(place: Place, other: str) -> None:
    """Two changes of one path are refused before anything runs, however it is spelled."""
    place.put("k", b"old")
    with pytest.raises(InvalidArgument):
        place.files.commit([Write(path="k", data=b"1"), Write(path=other, data=b"2")])
    with pytest.raises(InvalidArgument):
        place.files.commit([Remove(path=other), Write(path="k", data=b"2")])
    assert place.cat("k") == b"old"


@pytest.mark.shells
@pytest.mark.parametrize("how", ["hard", "symbolic", "directory", "new"])
def test_one_file_under_two_names(place: Place, how: str) -> None:
    """Two writes that would go to one file are refused, and the file is as it was."""
    if how != "new":
        file = place.put("k", b"old")
    names = {"hard": "other", "symbolic": "other", "directory": "link/k", "new": f"../{place.dir.name}/k"}
    if how == "hard":
        os.link(file, place.dir / "other")
    elif how == "symbolic":
        os.symlink("k", place.dir / "other")
    elif how == "directory":
        os.symlink(".", place.dir / "link")
    with pytest.raises(InvalidArgument):
        place.files.commit([Write(path="k", data=b"1"), Write(path="x", data=b""), Write(path=names[how], data=b"2")])
    assert not (place.dir / "x").exists()
    assert place.left_over() == []
    if how == "new":
        assert not (place.dir / "k").exists()
    else:
        assert place.cat("k") == b"old"


def test_hard_links_that_are_broken_are_two_files(place: Place) -> None:
    """Two names of one file may both be written when each is given a file of its own."""
    os.link(place.put("k", b"old"), place.dir / "g")
    changes = [Write(path=name, data=name.encode(), hardlinks="break") for name in ("k", "g")]
    place.files.commit(changes)
    assert (place.cat("k"), place.cat("g")) == (b"k", b"g")


def test_failed_batch_puts_back_a_hard_linked_file(place: Place) -> None:
    """A file that was written in place has its old bytes again when a later change fails."""
    os.link(place.put("k", b"old"), place.dir / "g")
    place.put("m")
    (place.dir / "d").mkdir()
    (place.dir / "e").mkdir()
    # Empty while preparing, and not any more when its turn comes.
    changes: list[Change] = [
        Write(path="k", data=b"new"),
        Move(path="m", dst="e/m"),
        Move(path="d", dst="e", overwrite=True),
    ]
    with pytest.raises(OSError, match="not empty: 'e'"):
        place.files.commit(changes)
    assert place.cat("k") == place.cat("g") == b"old"
    assert sorted(os.listdir(place.dir)) == ["d", "e", "g", "k", "m"]


@pytest.mark.shells
def test_a_move_onto_another_name_of_the_same_file(place: Place) -> None:
    """Of two hard links the source's name goes and the other stays; a batch that fails keeps both."""
    for alone in (True, False):
        file = place.put("k", b"bytes", 0o640)
        os.link(file, place.dir / "g")
        with pytest.raises(FileExistsError):
            place.files.move("k", "g")
        bad: list[Change] = [Move(path="k", dst="g", overwrite=True), Remove(path="none")]
        with pytest.raises(FileNotFoundError):
            place.files.commit(bad)
        assert sorted(os.listdir(place.dir)) == ["g", "k"]
        if alone:
            place.files.move("k", "g", overwrite=True)
        else:
            place.files.commit([Move(path="k", dst="g", overwrite=True), MakeDir(path="d")])
            (place.dir / "d").rmdir()
        assert os.listdir(place.dir) == ["g"] and place.cat("g") == b"bytes"
        (place.dir / "g").unlink()


@pytest.mark.shells
def test_symbolic_links_are_made(place: Place) -> None:
    """A link is made with its text as it is, where nothing is; what fails behind it takes it away again."""
    texts = ["x", "-n", "a b'$(id)\n", "../up", "/abs/\udcff", "made"]
    place.put("there", b"old")
    (place.dir / "made").mkdir()
    place.own(place.dir / "made")
    place.files.commit([Symlink(path=f"l{n}", target=text) for n, text in enumerate(texts)])
    assert [os.readlink(place.dir / f"l{n}") for n in range(len(texts))] == texts
    found = place.files.survey([f"l{n}" for n in range(len(texts))]).files
    assert [found[f"l{n}"].target for n in range(len(texts))] == texts
    assert place.files.survey(["there"]).files["there"].target is None
    place.files.commit([Symlink(path="made/l", target="there"), Remove(path="l0")])
    batches: list[list[Change]] = [
        [Symlink(path="there", target="x")],
        [Symlink(path="l1", target="x")],
        [Symlink(path="made", target="x")],
        [Symlink(path="new", target="x"), Write(path="there", data=b"new", if_absent=True)],
    ]
    for changes in batches:
        with pytest.raises(FileExistsError):
            place.files.commit(changes)
    with pytest.raises(FileNotFoundError):
        place.files.commit([Symlink(path="none/l", target="x")])
    with pytest.raises(InvalidArgument):
        place.files.commit([Symlink(path="new", target="")])
    names = {"there", "made", *(f"l{n}" for n in range(1, len(texts)))}
    assert set(os.listdir(place.dir)) == names and place.cat("there") == b"old"
    assert os.readlink(place.dir / "made/l") == "there"


@pytest.mark.shells
@pytest.mark.parametrize("batch", [False, True])
def test_a_file_that_must_not_be_written_in_place(place: Place, batch: bool) -> None:
    """Where a file has two names and in-place writes are not allowed, nothing is changed and the error names it."""
    file = place.put("f", b"old")
    os.link(file, place.dir / "g")
    place.put("other", b"old")
    more = [Write(path="other", data=b"new")] if batch else []
    with pytest.raises(NotReplaceable) as caught:
        place.files.commit([*more, Write(path="f", data=b"new", allow_in_place=False)])
    assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, "f")
    assert (place.cat("f"), place.cat("g"), place.cat("other"), place.left_over()) == (b"old", b"old", b"old", [])
    (done,) = place.files.commit([Write(path="f", data=b"new", hardlinks="break", allow_in_place=False)])
    assert done is not None and done.atomic and (place.cat("f"), place.cat("g")) == (b"new", b"old")
    (done,) = place.files.commit([Write(path="f", data=b"newer", allow_in_place=False)])
    assert done is not None and done.atomic and place.cat("f") == b"newer"
