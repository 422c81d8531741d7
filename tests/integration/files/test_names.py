"""Names: states, listings, directories, removing and moving."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import Move, Write

if TYPE_CHECKING:
    from .conftest import Place


@pytest.mark.shells
def test_stat_tells_what_lstat_tells(place: Place) -> None:
    """Kind, size, mode, owner, time and links are those that the system tells."""
    place.put("file", b"12345", 0o640)
    (place.dir / "dir").mkdir(mode=0o1750)
    (place.dir / "link").symlink_to("file")
    os.link(place.dir / "file", place.dir / "second")
    os.mkfifo(place.dir / "fifo", 0o600)
    kinds = {"file": "file", "dir": "directory", "link": "symlink", "fifo": "fifo"}
    for name, kind in kinds.items():
        told = os.lstat(place.dir / name)
        found = place.files.stat(name, follow=False)
        assert (found.path, found.kind, found.size) == (name, kind, told.st_size)
        assert found.mode == stat.S_IMODE(told.st_mode)
        assert (found.uid, found.gid, found.nlink) == (told.st_uid, told.st_gid, told.st_nlink)
        assert found.mtime is not None
        assert int(found.mtime) == int(told.st_mtime)
        assert found.target == ("file" if kind == "symlink" else None)


@pytest.mark.parametrize("mode", [0, 0o111, 0o4644, 0o4755, 0o2755, 0o2644, 0o1777, 0o1666, 0o7777])
def test_stat_of_special_modes(place: Place, mode: int) -> None:
    """Set-id and sticky bits are told with and without execute permission."""
    place.put("file", b"", mode)
    assert place.files.stat("file").mode == mode


def test_stat_follows(place: Place) -> None:
    """By default a link is followed, and then has no target of its own."""
    place.put("file", b"12345")
    (place.dir / "link").symlink_to("file")
    found = place.files.stat("link")
    assert (found.path, found.kind, found.size, found.target) == ("link", "file", 5, None)
    assert place.files.stat("/dev/null").kind == "char"


@pytest.mark.users
def test_stat_errors(place: Place) -> None:
    """What cannot be seen is the builtin error with the caller's path."""
    place.put("file")
    (place.dir / "loop").symlink_to("loop")
    (place.dir / "dangling").symlink_to("nowhere")
    cases = {
        "missing": errno.ENOENT,
        "file/x": errno.ENOTDIR,
        "file/": errno.ENOTDIR,
        "loop": errno.ELOOP,
        "dangling": errno.ENOENT,
    }
    for path, code in cases.items():
        with pytest.raises(OSError, match="Errno") as caught:
            place.files.stat(path)
        assert (path, caught.value.errno, caught.value.filename) == (path, code, path)
    assert place.files.stat("loop", follow=False).kind == "symlink"


def test_exists(place: Place) -> None:
    """Files and directories exist; missing names and links to nowhere do not."""
    place.put("file")
    (place.dir / "dangling").symlink_to("nowhere")
    expected = {"file": True, ".": True, "no": False, "no/x": False, "file/x": False}
    for path, answer in (expected | {"dangling": False}).items():
        assert place.files.exists(path) is answer, path


@pytest.mark.shells
def test_list_dir(place: Place) -> None:
    """A listing has every entry but . and .., hidden ones too, in the order of their bytes, and follows no link."""
    place.put("b", b"12")
    place.put(".hidden", b"1")
    place.put("..odd", b"")
    place.put("...", b"")
    (place.dir / "a dir").mkdir()
    (place.dir / "link\n").symlink_to("nowhere\n")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(place.dir)
        try:
            listener.bind("sock")
        finally:
            os.chdir("/")
    found = place.files.list_dir(".")
    assert [(entry.name, entry.kind) for entry in found] == [
        ("...", "file"),
        ("..odd", "file"),
        (".hidden", "file"),
        ("a dir", "directory"),
        ("b", "file"),
        ("link\n", "symlink"),
        ("sock", "socket"),
    ]
    assert [entry.path for entry in found][:2] == ["./...", "./..odd"]
    assert found[4].size == 2
    assert found[5].target == "nowhere\n"
    by_slash = place.files.list_dir(str(place.dir) + "/")
    assert by_slash[4].path == str(place.dir / "b")


def test_list_empty_and_large_dirs(place: Place) -> None:
    """An empty directory lists nothing, a large one everything."""
    (place.dir / "dir").mkdir()
    assert place.files.list_dir("dir") == []
    names = [f"file {number:04}" for number in range(450)]
    for name in names:
        (place.dir / "dir" / name).touch()
    assert [entry.name for entry in place.files.list_dir("dir")] == names


@pytest.mark.users
def test_list_errors(place: Place) -> None:
    """What is no readable directory is the builtin error with the caller's path."""
    place.put("file")
    (place.dir / "dir").mkdir(mode=0)
    place.own(place.dir / "dir")
    cases = {"missing": errno.ENOENT, "file": errno.ENOTDIR, "file/": errno.ENOTDIR}
    if place.user != "root":
        cases["dir"] = errno.EACCES
    for path, code in cases.items():
        with pytest.raises(OSError, match="Errno") as caught:
            place.files.list_dir(path)
        assert (path, caught.value.errno, caught.value.filename) == (path, code, path)


@pytest.mark.users
def test_make_dir(place: Place) -> None:
    """A directory is made with the mode that the umask leaves; a second time is an error."""
    place.files.make_dir("dir")
    place.files.make_dir("other/")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((place.dir / "dir").stat().st_mode) == 0o777 & ~mask
    assert (place.dir / "other").is_dir()
    with pytest.raises(FileExistsError) as caught:
        place.files.make_dir("dir")
    assert caught.value.filename == "dir"


def test_make_parents(place: Place) -> None:
    """With `parents` missing ones are made and an existing directory is accepted."""
    with pytest.raises(FileNotFoundError):
        place.files.make_dir("a/b/c")
    assert not (place.dir / "a").exists()
    place.files.make_dir("a/b/c", parents=True)
    place.files.make_dir("a/b/c", parents=True)
    assert (place.dir / "a/b/c").is_dir()
    place.put("file")
    with pytest.raises(FileExistsError):
        place.files.make_dir("file", parents=True)
    with pytest.raises(NotADirectoryError):
        place.files.make_dir("file/x", parents=True)


@pytest.mark.users
def test_remove(place: Place) -> None:
    """Files, links and empty directories are removed; what a link leads to is not."""
    place.put("file")
    (place.dir / "link").symlink_to("file")
    (place.dir / "dirlink").symlink_to("dir")
    (place.dir / "dir").mkdir()
    for name in ("link", "dirlink", "dir/"):
        place.files.remove(name)
    assert [path.name for path in place.dir.iterdir()] == ["file"]
    place.files.remove("file")
    assert list(place.dir.iterdir()) == []
    with pytest.raises(FileNotFoundError) as caught:
        place.files.remove("file")
    assert caught.value.filename == "file"


@pytest.mark.users
def test_remove_trees(place: Place) -> None:
    """A directory with content needs `recursive`; links in it are removed, not followed."""
    place.put("precious", b"stays")
    (place.dir / "dir" / "sub").mkdir(parents=True)
    (place.dir / "dir" / "sub" / "link").symlink_to("../../precious")
    (place.dir / "dir" / ".hidden").touch()
    for path in (place.dir / "dir", place.dir / "dir/sub"):
        place.own(path)
    with pytest.raises(OSError, match="not empty") as caught:
        place.files.remove("dir")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOTEMPTY, "dir")
    place.files.remove("dir", recursive=True)
    assert [path.name for path in place.dir.iterdir()] == ["precious"]
    assert place.cat("precious") == b"stays"


@pytest.mark.users
@pytest.mark.parametrize(("path", "code"), [(".", errno.EINVAL), ("a/..", errno.EINVAL), ("/", errno.EBUSY)])
def test_what_is_never_removed(place: Place, path: str, code: int) -> None:
    """The root, . and .. are refused, also recursively."""
    place.put("file")
    with pytest.raises(OSError, match="Errno") as caught:
        place.files.remove(path, recursive=True)
    assert caught.value.errno == code
    assert (place.dir / "file").exists()


@pytest.mark.shells
def test_move(place: Place) -> None:
    """A file, a link and a directory get other names; content and mode come along."""
    place.put("file", b"content", 0o751)
    (place.dir / "link").symlink_to("nowhere")
    (place.dir / "dir").mkdir()
    place.own(place.dir / "dir")
    place.put("dir/inner", b"x")
    for name in ("file", "link", "dir"):
        place.files.move(name, f"new {name}")
    assert place.cat("new file") == b"content"
    assert stat.S_IMODE((place.dir / "new file").stat().st_mode) == 0o751
    assert os.readlink(place.dir / "new link") == "nowhere"
    assert place.cat("new dir/inner") == b"x"
    assert sorted(os.listdir(place.dir)) == ["new dir", "new file", "new link"]


@pytest.mark.users
def test_move_onto_something(place: Place) -> None:
    """An existing name is refused unless `overwrite` is given; nothing is ever moved into a directory."""
    place.put("one", b"1")
    place.put("two", b"2")
    (place.dir / "dir").mkdir()
    (place.dir / "full").mkdir()
    (place.dir / "empty").mkdir()
    place.put("full/x")
    for dst in ("two", "dir"):
        with pytest.raises(FileExistsError) as caught:
            place.files.move("one", dst)
        assert caught.value.filename == dst
    place.files.move("one", "two", overwrite=True)
    assert place.cat("two") == b"1"
    cases = {("two", "dir"): errno.EISDIR, ("dir", "two"): errno.ENOTDIR, ("dir", "full"): errno.ENOTEMPTY}
    for (src, dst), code in cases.items():
        with pytest.raises(OSError, match="Errno") as failed:
            place.files.move(src, dst, overwrite=True)
        assert (failed.value.errno, failed.value.filename) == (code, dst)
    place.own(place.dir / "dir")
    place.own(place.dir / "empty")
    place.files.move("dir", "empty", overwrite=True)
    assert sorted(os.listdir(place.dir)) == ["empty", "full", "two"]


@pytest.mark.users
def test_move_errors(place: Place) -> None:
    """A missing source, a missing directory and a directory into itself are errors that name the right path."""
    place.put("file")
    (place.dir / "dir").mkdir()
    place.own(place.dir / "dir")
    cases = {
        ("no", "x"): (errno.ENOENT, "no"),
        ("file", "no/x"): (errno.ENOENT, "no/x"),
        ("file", "file/x"): (errno.ENOTDIR, "file/x"),
        ("dir", "dir/sub"): (errno.EINVAL, "dir"),
        ("file/", "x"): (errno.ENOTDIR, "file/"),
    }
    for (src, dst), (code, named) in cases.items():
        with pytest.raises(OSError, match="Errno") as caught:
            place.files.move(src, dst)
        assert (src, dst, caught.value.errno, caught.value.filename) == (src, dst, code, named)
    assert sorted(os.listdir(place.dir)) == ["dir", "file"]


def test_move_to_another_file_system(place: Place) -> None:
    """A file that goes to another file system arrives whole with its mode; a directory is EXDEV."""
    other = Path("/dev/shm") / f"hermes-test-{os.getpid()}-{place.dir.parent.name}"
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == place.dir.stat().st_dev:
        pytest.skip("there is no second writable file system at /dev/shm")
    other.mkdir()
    try:
        place.own(other)
        place.put("file", b"content" * 1000, 0o640)
        (place.dir / "dir").mkdir()
        place.own(place.dir / "dir")
        place.files.move("file", f"{other}/moved")
        assert (other / "moved").read_bytes() == b"content" * 1000
        assert stat.S_IMODE((other / "moved").stat().st_mode) == 0o640
        with pytest.raises(OSError, match="Errno") as caught:
            place.files.move("dir", f"{other}/dir")
        assert caught.value.errno == errno.EXDEV
        assert os.listdir(place.dir) == ["dir"]
        assert os.listdir(other) == ["moved"]
    finally:
        for path in other.iterdir():
            path.unlink()
        other.rmdir()


@pytest.mark.shells
@pytest.mark.parametrize("kind", ["file", "empty", "full"])
def test_move_onto_itself(place: Place, kind: str) -> None:
    """A move to the same name in another spelling changes nothing and is no error, alone and in a batch."""
    if kind == "file":
        place.put("k", b"content")
    else:
        place.files.make_dir("k")
    if kind == "full":
        place.put("k/in", b"content")
    dst = f"../{place.dir.name}/k"
    before = os.stat(place.dir / "k").st_ino
    place.files.move("k", dst, overwrite=True)
    place.files.commit([Move(path="k", dst=dst, overwrite=True), Write(path="x", data=b"")])
    with pytest.raises(FileExistsError):
        place.files.move("k", dst)
    assert os.stat(place.dir / "k").st_ino == before
    assert sorted(os.listdir(place.dir)) == ["k", "x"]
