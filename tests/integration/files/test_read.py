"""Reading: the whole of a file arrives, or an error does."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import FileChanged, InvalidArgument

if TYPE_CHECKING:
    from .conftest import Place

ALL_BYTES = bytes(range(256)) * 16
CONTENTS = {
    "empty": b"",
    "one": b"x",
    "every-byte": ALL_BYTES,
    "newlines": b"\n\n\n",
    "nul": b"\0" * 70_000,
    "64-KiB": ALL_BYTES * 16,
    "64-KiB-and-one": ALL_BYTES * 16 + b"y",
    "1-MiB-and-one": ALL_BYTES * 256 + b"z",
    "3-MiB": ALL_BYTES * 768 + b"123",
}


@pytest.mark.shells
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_bytes_arrive(place: Place, content: bytes) -> None:
    """What another program wrote is read as it is: whole, in chunks, and by digest."""
    place.put("file", content)
    assert place.files.read_bytes("file") == content
    assert b"".join(place.files.read_chunks("file")) == content
    assert place.files.sha256("file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("offset", "limit"),
    [(0, 0), (0, 1), (1, None), (4095, 2), (65_536, 65_536), (1_048_575, 3), (3_000_000, None)],
)
def test_ranges(place: Place, offset: int, limit: int | None) -> None:
    """A part is exactly that part, also at block borders."""
    content = ALL_BYTES * 768 + b"123"
    place.put("file", content)
    end = None if limit is None else offset + limit
    assert place.files.read_bytes("file", offset=offset, limit=limit) == content[offset:end]


@pytest.mark.shells
def test_ranges_over_the_end(place: Place) -> None:
    """An offset over the end gives no bytes; a limit over the end gives what there is."""
    place.put("file", b"0123456789")
    assert place.files.read_bytes("file", offset=10) == b""
    assert place.files.read_bytes("file", offset=99, limit=5) == b""
    assert place.files.read_bytes("file", offset=8, limit=99) == b"89"


@pytest.mark.once
@pytest.mark.parametrize("value", [-1, True, "1", 1.5])
def test_bad_ranges(place: Place, value: object) -> None:
    """What is no number of bytes is refused before anything runs."""
    with pytest.raises(InvalidArgument, match="offset"):
        place.files.read_bytes("file", offset=value)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="limit"):
        place.files.read_bytes("file", limit=value)  # type: ignore[arg-type]


def test_through_links(place: Place) -> None:
    """Reading follows symbolic links."""
    place.put("file", b"content")
    (place.dir / "one").symlink_to("file")
    (place.dir / "two").symlink_to("one")
    assert place.files.read_bytes("two") == b"content"


@pytest.mark.users
def test_errors_name_the_path(place: Place) -> None:
    """Every way to have no readable file is the builtin error with errno and the caller's path."""
    place.put("file")
    (place.dir / "dir").mkdir()
    os.mkfifo(place.dir / "fifo")
    (place.dir / "loop").symlink_to("loop")
    (place.dir / "dangling").symlink_to("nowhere")
    cases = {
        "missing": errno.ENOENT,
        "missing/x": errno.ENOENT,
        "file/x": errno.ENOTDIR,
        "file/": errno.ENOTDIR,
        "dir": errno.EISDIR,
        "dir/": errno.EISDIR,
        "fifo": errno.EINVAL,
        "/dev/zero": errno.EINVAL,
        "loop": errno.ELOOP,
        "dangling": errno.ENOENT,
        "n" * 256: errno.ENAMETOOLONG,
    }
    for path, code in cases.items():
        for call in (
            lambda path=path: place.files.read_bytes(path),
            lambda path=path: list(place.files.read_chunks(path)),
            lambda path=path: place.files.sha256(path),
            lambda path=path: place.files.read_many([path]),
        ):
            with pytest.raises(OSError, match="Errno") as caught:
                call()
            assert (path, caught.value.errno, caught.value.filename) == (path, code, path)


@pytest.mark.users
def test_no_permission(place: Place) -> None:
    """A file or directory that may not be read is EACCES."""
    if place.user == "root":
        pytest.skip("root may read everything")
    place.put("file", b"secret", 0o000)
    (place.dir / "dir").mkdir()
    place.put("dir/file", b"secret")
    (place.dir / "dir").chmod(0)
    place.own(place.dir / "dir")
    for path in ("file", "dir/file"):
        with pytest.raises(PermissionError) as caught:
            place.files.read_bytes(path)
        assert caught.value.filename == path
    (place.dir / "dir").chmod(0o755)


def test_pseudo_files(place: Place) -> None:
    """Files of /proc have size 0 and content: it is read."""
    version = Path("/proc/version").read_bytes()
    assert version
    assert place.files.read_bytes("/proc/version") == version
    assert place.files.read_bytes("/proc/version", offset=2, limit=5) == version[2:7]
    assert b"".join(place.files.read_chunks("/proc/version")) == version


def test_growing_file(place: Place) -> None:
    """A file that only grows is read up to the size that it had."""
    if place.user == "nobody" and place.native:
        pytest.skip("the writer would act as the other user too")
    path = place.put("log", b"line\n" * 200_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as log:
            while not stop.wait(0.001):
                log.write(b"line\n" * 50)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(5):
            content = place.files.read_bytes("log")
            assert len(content) >= 1_000_000
            assert content == (b"line\n" * (len(content) // 5 + 1))[: len(content)]
            assert sum(map(len, place.files.read_chunks("log"))) >= len(content)
    finally:
        stop.set()
        writer.join()


def test_replaced_file_is_read_whole(place: Place) -> None:
    """A file that is replaced over and over is read as one of its versions, never as a mixture."""
    versions = {bytes([number]) * 300_000 for number in range(4)}
    if place.user == "nobody" and place.native:
        pytest.skip("the writer would act as the other user too")
    path = place.put("file", next(iter(versions)))
    stop = threading.Event()

    def replace() -> None:
        while not stop.wait(0.001):
            for version in versions:
                (place.dir / "next").write_bytes(version)
                (place.dir / "next").chmod(0o644)
                (place.dir / "next").rename(path)

    writer = threading.Thread(target=replace)
    writer.start()
    read = []
    try:
        for _ in range(10):
            try:
                read.append(place.files.read_bytes("file"))
            except FileChanged:
                continue
    finally:
        stop.set()
        writer.join()
    assert set(read) <= versions


def test_rewritten_file_is_noticed(place: Place) -> None:
    """Bytes that change under a read raise `FileChanged` or are one whole version; a torn read is never returned."""
    if place.user == "nobody" and place.native:
        pytest.skip("the writer would act as the other user too")
    path = place.put("file", b"\0" * 2_000_000)
    stop = threading.Event()

    def rewrite() -> None:
        number = 0
        with path.open("rb+", buffering=0) as file:
            while not stop.wait(0.001):
                number += 1
                file.seek(0)
                file.write(bytes([number % 256]) * 2_000_000)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(5):
            try:
                content = place.files.read_bytes("file")
            except FileChanged:
                continue
            assert len(content) == 2_000_000
    finally:
        stop.set()
        writer.join()


def test_abandoned_chunks(place: Place) -> None:
    """Giving up a read half-way leaves nothing running and the files usable."""
    place.put("file", b"x" * 20_000_000)
    if place.user == "nobody" and place.native:
        pytest.skip("the chunks are collected while acting as the user")
    chunks = place.files.read_chunks("file")
    assert next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert place.files.read_bytes("file", limit=3) == b"xxx"
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name in ("hermes-env-read", "hermes-env-hash")]


@pytest.mark.shells
def test_read_many(place: Place) -> None:
    """Many files are read at once, each exactly."""
    contents = {f"file {number}\n": ALL_BYTES * number for number in range(20)}
    for name, content in contents.items():
        place.put(name, content)
    assert place.files.read_many(list(contents)) == contents
    assert place.files.read_many([]) == {}
    assert place.files.read_many(["file 1\n", "file 1\n"]) == {"file 1\n": ALL_BYTES}


def test_read_many_with_missing(place: Place) -> None:
    """A missing file is an error, or left out on request; other errors are raised in any case."""
    place.put("a", b"1")
    place.put("b", b"2")
    (place.dir / "d").mkdir()
    assert place.files.read_many(["a", "no", "a/no", "b"], missing_ok=True) == {"a": b"1", "b": b"2"}
    with pytest.raises(FileNotFoundError) as caught:
        place.files.read_many(["a", "no", "b"])
    assert caught.value.filename == "no"
    with pytest.raises(IsADirectoryError) as directory:
        place.files.read_many(["a", "d", "b"], missing_ok=True)
    assert directory.value.filename == "d"


def test_large_file(place: Place) -> None:
    """A file far over every output limit is read whole, as its digest by another program shows."""
    path = place.put("file")
    with path.open("wb") as file:
        for number in range(24):
            file.write(os.urandom(1 << 20) + bytes([number]))
    told = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout
    assert hashlib.sha256(place.files.read_bytes("file")).hexdigest() == told.split()[0]
    digest = hashlib.sha256()
    for chunk in place.files.read_chunks("file"):
        digest.update(chunk)
    assert digest.hexdigest() == told.split()[0]


@pytest.mark.shells
@pytest.mark.parametrize("number", [2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 2, 10**30])
def test_enormous_offset_and_limit(place: Place, number: int) -> None:
    """An offset over the end gives no bytes and a limit over it all of them, however large the number is."""
    place.put("file", b"content")
    assert place.files.read_bytes("file", offset=number) == b""
    assert place.files.read_bytes("file", limit=number) == b"content"
    assert place.files.read_bytes("file", offset=3, limit=number) == b"tent"
    assert place.files.read_bytes("file", offset=number, limit=number) == b""
