"""What a write finds at its path: links, directories, special files, other names of one file, nothing."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Place


@pytest.mark.shells
def test_symlink_chain(place: Place) -> None:
    """A write goes through relative and absolute links to the file; the links stay."""
    (place.dir / "sub").mkdir()
    place.own(place.dir / "sub")
    real = place.put("sub/real", b"old")
    (place.dir / "sub" / "one").symlink_to("real")
    (place.dir / "two").symlink_to(place.dir / "sub" / "one")
    (place.dir / "link").symlink_to("./sub/../two")
    result = place.files.write_bytes("link", b"new")
    assert (result.path, result.created) == ("link", False)
    assert place.cat("sub/real") == b"new"
    assert not real.is_symlink()
    assert os.readlink(place.dir / "link") == "./sub/../two"
    assert os.readlink(place.dir / "sub" / "one") == "real"


@pytest.mark.shells
def test_forty_links_and_no_more(place: Place) -> None:
    """Forty links in a row are followed, as Linux does; one more is ELOOP."""
    place.put("l0", b"old")
    for number in range(41):
        (place.dir / f"l{number + 1}").symlink_to(f"l{number}")
    place.files.write_bytes("l40", b"new")
    assert place.cat("l0") == b"new"
    with pytest.raises(OSError, match="l41") as caught:
        place.files.write_bytes("l41", b"newer")
    assert caught.value.errno == errno.ELOOP
    assert place.cat("l0") == b"new"


def test_dangling_link_makes_its_target(place: Place) -> None:
    """A link that leads nowhere yet gets its target made."""
    (place.dir / "link").symlink_to("target")
    assert place.files.write_bytes("link", b"new").created
    assert place.cat("target") == b"new"
    assert (place.dir / "link").is_symlink()


def test_link_loop(place: Place) -> None:
    """Links that lead to each other are ELOOP, with the caller's path."""
    (place.dir / "a").symlink_to("b")
    (place.dir / "b").symlink_to("a")
    with pytest.raises(OSError, match="'a'") as caught:
        place.files.write_bytes("a", b"x")
    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, "a")


def test_link_to_directory(place: Place) -> None:
    """A link to a directory, with or without a slash in it, is no file to write."""
    (place.dir / "d").mkdir()
    (place.dir / "one").symlink_to("d")
    (place.dir / "two").symlink_to("d/")
    for name in ("one", "two"):
        with pytest.raises(IsADirectoryError) as caught:
            place.files.write_bytes(name, b"x")
        assert caught.value.filename == name


@pytest.mark.parametrize("path", ["d", "new/", "file/", ".", "..", "d/.", "/"])
def test_directory_is_no_target(place: Place, path: str) -> None:
    """A directory, or a path that can only be one, is EISDIR with the caller's path."""
    (place.dir / "d").mkdir()
    place.put("file", b"old")
    with pytest.raises(IsADirectoryError) as caught:
        place.files.write_bytes(path, b"x")
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, path)
    assert place.cat("file") == b"old"


def test_special_files_are_no_targets(place: Place) -> None:
    """FIFOs, sockets and devices are refused without being opened, and stay."""
    os.mkfifo(place.dir / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(place.dir)
        try:
            listener.bind("sock")
        finally:
            os.chdir("/")
    for path in ("fifo", "sock", "/dev/null"):
        with pytest.raises(OSError, match="regular") as caught:
            place.files.write_bytes(path, b"x")
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
    assert stat.S_ISFIFO((place.dir / "fifo").stat().st_mode)
    assert place.left_over() == []


def test_missing_parent(place: Place) -> None:
    """Without `make_parents` a missing directory is ENOENT; with it, it is made."""
    with pytest.raises(FileNotFoundError) as caught:
        place.files.write_bytes("a/b/c", b"x")
    assert caught.value.filename == "a/b/c"
    assert not (place.dir / "a").exists()
    assert place.files.write_bytes("a/b/c", b"x", make_parents=True).created
    assert place.cat("a/b/c") == b"x"


def test_parent_is_a_file(place: Place) -> None:
    """A file where a directory should be is ENOTDIR."""
    place.put("file", b"old")
    for parents in (False, True):
        with pytest.raises(NotADirectoryError) as caught:
            place.files.write_bytes("file/x", b"x", make_parents=parents)
        assert caught.value.filename == "file/x"


def test_name_too_long(place: Place) -> None:
    """A component over 255 bytes or a path over 4095 is ENAMETOOLONG."""
    for path in ("n" * 256, "/".join(["d" * 200] * 21)):
        with pytest.raises(OSError, match="too long") as caught:
            place.files.write_bytes(path, b"x")
        assert caught.value.errno == errno.ENAMETOOLONG
    assert place.left_over() == []


def test_longest_name(place: Place) -> None:
    """A name of 255 bytes works, although the temporary file has another one."""
    place.files.write_bytes("n" * 255, b"x")
    assert place.cat("n" * 255) == b"x"


@pytest.mark.shells
def test_hard_links_are_kept(place: Place) -> None:
    """By default all names of a file see the new bytes; it is written in place and says so."""
    path = place.put("one", b"old bytes that are longer")
    os.link(path, place.dir / "two")
    result = place.files.write_bytes("one", b"new")
    assert (place.cat("one"), place.cat("two"), result.atomic) == (b"new", b"new", False)
    assert result.verified
    assert path.stat().st_nlink == 2
    assert place.left_over() == []


def test_hard_links_break(place: Place) -> None:
    """On request only the written name gets the new bytes."""
    path = place.put("one", b"old")
    os.link(path, place.dir / "two")
    assert place.files.write_bytes("one", b"new", hardlinks="break").atomic
    assert (place.cat("one"), place.cat("two")) == (b"new", b"old")


def test_hard_links_refuse(place: Place) -> None:
    """On request a file with several names is refused."""
    path = place.put("one", b"old")
    os.link(path, place.dir / "two")
    with pytest.raises(OSError, match="hard links") as caught:
        place.files.write_bytes("one", b"new", hardlinks="refuse")
    assert (caught.value.errno, caught.value.filename) == (errno.EMLINK, "one")
    assert place.cat("one") == b"old"
