"""Writing: every byte arrives, and nothing of the file but its bytes changes."""

from __future__ import annotations

import hashlib
import io
import os
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
