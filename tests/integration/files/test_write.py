"""Writing: every byte arrives, and nothing of the file but its bytes changes."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import FileChanged, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Place

ALL_BYTES = bytes(range(256)) * 16
CONTENTS = {
    "empty": b"",
    "one": b"x",
    "every-byte": ALL_BYTES,
    "nul": b"\0" * 5000,
    "no-final-newline": b"a\nb",
    "crlf": b"a\r\nb\r\n\r",
    "invalid-utf8": b"\xff\xfe\xc3(\xe2\x82",
    "shell": b"$(touch pwned) `id` '\"\\ EOF\nHERMES_EOF\n.hermes+\n%s%d\\0",
    "pipe-size": b"p" * 65537,
    "argument-size": b"q" * 131_073,
    "160-KiB-with-nul": b"\0abc" * 40_960,
    "2-MiB": hashlib.sha256(b"seed").digest() * 65_536 + b"!",
}


@pytest.mark.shells
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_bytes_arrive(place: Place, content: bytes) -> None:
    """A written file holds exactly the caller's bytes, as another program reads them."""
    result = place.files.write_bytes("file", content)
    assert place.cat("file") == content
    assert result.size == len(content)
    assert result.sha256 == hashlib.sha256(content).hexdigest()
    assert (result.verified, result.created, result.atomic) == (True, True, True)
    assert place.left_over() == []


@pytest.mark.shells
def test_iterator_arrives(place: Place) -> None:
    """An iterable is written without knowing its length, and the manifest behind it is not part of the file."""
    chunks = [b"", ALL_BYTES, b"x" * 100_000, b"\0", b"end"]
    result = place.files.write_bytes("file", iter(chunks))
    assert place.cat("file") == b"".join(chunks)
    assert (result.size, result.verified) == (sum(map(len, chunks)), True)
    assert place.left_over() == []


def test_empty_iterator(place: Place) -> None:
    """An iterable without chunks makes an empty file."""
    assert place.files.write_bytes("file", iter(())).size == 0
    assert place.cat("file") == b""


def test_binary_file_arrives(place: Place, tmp_path: Path) -> None:
    """A binary file is written from where it stands."""
    source = tmp_path / "source"
    source.write_bytes(ALL_BYTES * 100)
    with source.open("rb") as file:
        file.seek(7)
        place.files.write_bytes("one", file)
    place.files.write_bytes("two", io.BytesIO(ALL_BYTES))
    assert place.cat("one") == (ALL_BYTES * 100)[7:]
    assert place.cat("two") == ALL_BYTES


def test_failing_iterator_leaves_the_old_file(place: Place) -> None:
    """When the caller's iterable raises, its error is raised and the old bytes stay."""
    place.put("file", b"old")

    def chunks() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        place.files.write_bytes("file", chunks())
    assert place.cat("file") == b"old"
    assert place.left_over() == []


@pytest.mark.once
@pytest.mark.parametrize("bad", ["text", 5, None, ["text"]])
def test_data_that_is_no_bytes_is_refused(place: Place, bad: object) -> None:
    """Text and other objects are refused, and the old bytes stay."""
    place.put("file", b"old")
    with pytest.raises(InvalidArgument, match="data"):
        place.files.write_bytes("file", bad)  # type: ignore[arg-type]
    assert place.cat("file") == b"old"
    assert place.left_over() == []


@pytest.mark.users
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4751, 0o2640, 0o1777, 0o640])
def test_mode_is_kept(place: Place, mode: int) -> None:
    """The permission bits of an existing file survive a write, special ones too."""
    path = place.put("file", b"old", mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    place.files.write_bytes("file", b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert place.cat("file") == b"new"


@pytest.mark.users
def test_new_file_gets_the_umask(place: Place) -> None:
    """A new file has the mode that the umask leaves, as any new file."""
    place.files.write_bytes("file", b"")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((place.dir / "file").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0, 0o400, 0o711, 0o7777])
def test_mode_is_set(place: Place, mode: int) -> None:
    """An explicit mode is given to new and to existing files."""
    place.put("old", b"")
    for name in ("old", "new"):
        place.files.write_bytes(name, b"x", mode=mode)
        assert stat.S_IMODE((place.dir / name).stat().st_mode) == mode


@pytest.mark.once
@pytest.mark.parametrize("mode", [-1, 0o10000, True, "644"])
def test_bad_mode_is_refused(place: Place, mode: object) -> None:
    """What is no permission bits is refused before anything runs."""
    with pytest.raises(InvalidArgument, match="mode"):
        place.files.write_bytes("file", b"", mode=mode)  # type: ignore[arg-type]
    assert not (place.dir / "file").exists()


@pytest.mark.users
def test_owner_is_kept(place: Place) -> None:
    """A file of another user still belongs to him after a write by root."""
    if place.user != "root":
        pytest.skip("only root can write files of another user")
    path = place.put("file", b"old", 0o640)
    os.chown(path, 1234, 4321)
    result = place.files.write_bytes("file", b"new")
    state = path.stat()
    assert (state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == (1234, 4321, 0o640)
    assert result.atomic


@pytest.mark.users
def test_owner_that_cannot_be_restored(place: Place) -> None:
    """A writable file of another user is written in place, since a new file could not be his."""
    if place.user != "nobody":
        pytest.skip("needs a user who cannot give files away")
    path = place.dir / "file"
    path.write_bytes(b"old bytes")
    path.chmod(0o666)
    inode = path.stat().st_ino
    result = place.files.write_bytes("file", b"new")
    state = path.stat()
    assert (state.st_uid, state.st_ino, result.atomic) == (0, inode, False)
    assert place.cat("file") == b"new"
    assert result.verified
    assert place.left_over() == []


@pytest.mark.users
def test_created_file_belongs_to_the_user(place: Place) -> None:
    """A new file belongs to who runs commands there, and its time is now."""
    place.files.write_bytes("file", b"")
    owner = {"root": 0, "nobody": 65534}.get(place.user, os.getuid())
    assert (place.dir / "file").stat().st_uid == owner
    assert (place.dir / "file").stat().st_mtime > 1_000_000_000


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


def test_if_sha256(place: Place) -> None:
    """A write with an expected digest happens only when the file holds those bytes."""
    place.put("file", b"old")
    digest = hashlib.sha256(b"old").hexdigest()
    place.files.write_bytes("file", b"new", if_sha256=digest.upper())
    with pytest.raises(FileChanged, match="file"):
        place.files.write_bytes("file", b"newer", if_sha256=digest)
    with pytest.raises(FileChanged, match="absent"):
        place.files.write_bytes("absent", b"newer", if_sha256=digest)
    assert place.cat("file") == b"new"
    assert not (place.dir / "absent").exists()
    assert place.left_over() == []


@pytest.mark.once
@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, 5])
def test_bad_digest_is_refused(place: Place, digest: object) -> None:
    """What is no SHA-256 is refused before anything runs."""
    with pytest.raises(InvalidArgument, match="if_sha256"):
        place.files.write_bytes("file", b"", if_sha256=digest)  # type: ignore[arg-type]


def test_without_durability(place: Place) -> None:
    """A write that need not reach the disk is verified all the same."""
    result = place.files.write_bytes("file", b"x", durable=False)
    assert (place.cat("file"), result.verified) == (b"x", True)


@pytest.mark.once
@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800b", b"bytes", None])
def test_impossible_paths(place: Place, path: object) -> None:
    """A path that no environment can have is refused, naming the argument, and the environment stays usable."""
    for call in (
        lambda: place.files.write_bytes(path, b""),  # type: ignore[arg-type]
        lambda: place.files.read_bytes(path),  # type: ignore[arg-type]
        lambda: place.files.stat(path),  # type: ignore[arg-type]
        lambda: place.files.list_dir(path),  # type: ignore[arg-type]
        lambda: place.files.remove(path),  # type: ignore[arg-type]
        lambda: place.files.make_dir(path),  # type: ignore[arg-type]
        lambda: place.files.sha256(path),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument, match="path"):
            call()
    place.files.write_bytes("file", b"x")
    assert place.cat("file") == b"x"


HOSTILE = [
    "with space",
    "-rf",
    "--help",
    "$(touch pwned)",
    "`id`",
    "a;b&c|d",
    "quote'\"",
    "back\\slash",
    "new\nline",
    "trailing\n",
    "*?[x]",
    "~",
    "!",
    "(",
    "=",
    "tab\tcr\r",
    "\x01\x7f\x1b[31m",
    "caf\u00e9 \u2615",
    "\udcff\udc80bytes",
    " -> arrow",
    "{",
    "#",
    "%s%n",
]


@pytest.mark.shells
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(place: Place, name: str) -> None:
    """A name of any bytes is one file: nothing expands, nothing runs, nothing is taken for an option."""
    f = place.files
    raw = name.encode("utf-8", "surrogateescape")
    f.write_bytes(name, b"content")
    assert os.listdir(os.fsencode(place.dir)) == [raw]
    assert f.read_bytes(name) == b"content"
    assert f.sha256(name) == hashlib.sha256(b"content").hexdigest()
    assert (f.stat(name).path, f.stat(name).size) == (name, 7)
    f.make_dir("dir")
    f.move(name, f"dir/{name}")
    assert [entry.path for entry in f.list_dir("dir")] == [f"dir/{name}"]
    (Path(os.fsdecode(os.fsencode(place.dir))) / "link").symlink_to(os.fsdecode(b"dir/" + raw))
    assert f.stat("link", follow=False).target == f"dir/{name}"
    f.write_bytes("link", b"through the link")
    with open(os.fsencode(place.dir) + b"/dir/" + raw, "rb") as file:
        assert file.read() == b"through the link"
    f.remove(f"dir/{name}")
    assert os.listdir(place.dir / "dir") == []
