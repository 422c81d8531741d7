"""Large files that the SDK downloads where they are: every byte is proved, whatever the SDK brings."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_env import FileChanged, open_environment
from hermes_env._blocks import BLOCK
from hermes_env.files._script_read import READ_SCRIPT
from hermes_env.files._transfer import Offer, Part, Transfer
from tests.backends.faults import SdkError
from tests.backends.shells import SHELLS, install
from tests.backends.uploads import DownloadEnvironment

Chunks = Iterator[bytes]
SMALLEST = (2 << 20) + 1
"""Bytes from which the test's backend downloads."""
TOOLS = "base64 cat cksum date dd grep head ls mkdir mv rm setsid sh sleep stat tail wc"
"""All that is needed, and nothing that computes SHA-256."""


@pytest.fixture
def env(tmp_path: Path) -> Iterator[DownloadEnvironment]:
    """An environment whose SDK downloads; commands run in `tmp_path`."""
    name = "tests.backends.uploads:DownloadEnvironment"
    opened = open_environment(name, root=str(tmp_path), cwd=str(tmp_path))
    assert isinstance(opened, DownloadEnvironment)
    with opened:
        try:
            yield opened
        finally:
            opened.sdk.faults.release()


def made(path: Path, size: int) -> bytes:
    """A file of random bytes."""
    data = os.urandom(size)
    path.write_bytes(data)
    return data


def downloaded(env: DownloadEnvironment) -> list[str]:
    """What the SDK was asked for."""
    return [path for step, path in env.sdk.faults.calls if step == "download"]


def streamed(env: DownloadEnvironment, path: str) -> bytes:
    """The file as its chunks come."""
    return b"".join(env.files.read_chunks(path))


@pytest.mark.parametrize("read", [lambda env, path: env.files.read_bytes(path), streamed], ids=["bytes", "chunks"])
@pytest.mark.parametrize("size", [SMALLEST, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 65_537])
def test_a_large_file_is_downloaded_where_it_is(
    env: DownloadEnvironment, tmp_path: Path, size: int, read: Callable[[DownloadEnvironment, str], bytes]
) -> None:
    """One command and one download of the file itself: nothing is copied before."""
    data = made(tmp_path / "f", size)
    assert read(env, "f") == data
    assert downloaded(env) == [str(tmp_path / "f")]


def test_a_download_is_read_to_its_end(env: DownloadEnvironment, tmp_path: Path) -> None:
    """Otherwise the SDK would have to close the connection, and the next request to make another."""
    made(tmp_path / "f", BLOCK)
    ended = []

    def watched(chunks: Chunks) -> Chunks:
        yield from chunks
        ended.append(True)

    env.sdk.damage = watched
    env.files.read_bytes("f")
    env.exec("cat f")
    assert ended == [True, True]


def test_a_file_that_fits_a_reply_is_not_downloaded(env: DownloadEnvironment, tmp_path: Path) -> None:
    """It comes with the reply of the one command."""
    data = made(tmp_path / "f", SMALLEST - 1)
    assert env.files.read_bytes("f") == data
    assert not [path for path in downloaded(env) if path.endswith("/f")]


def test_a_part_is_not_downloaded_whole(env: DownloadEnvironment, tmp_path: Path) -> None:
    """A part of a file is printed; a limit that is no limit changes nothing."""
    data = made(tmp_path / "f", 3 << 20)
    assert env.files.read_bytes("f", offset=1) == data[1:]
    assert env.files.read_bytes("f", limit=len(data) - 1) == data[:-1]
    assert str(tmp_path / "f") not in downloaded(env)
    assert env.files.read_bytes("f", limit=len(data)) == data
    assert downloaded(env)[-1] == str(tmp_path / "f")


# -- what the SDK may do to it ------------------------------------------------------------------------------------


def flipped(chunks: Chunks, at: int) -> Chunks:
    """One bit is another."""
    for chunk in chunks:
        if 0 <= at < len(chunk):
            yield chunk[:at] + bytes([chunk[at] ^ 1]) + chunk[at + 1 :]
        else:
            yield chunk
        at -= len(chunk)


def cut(chunks: Chunks, size: int) -> Chunks:
    """It ends early, without an error."""
    for chunk in chunks:
        yield chunk[: max(0, size)]
        size -= len(chunk)


def broken(chunks: Chunks, size: int) -> Chunks:
    """It fails on the way."""
    yield from cut(chunks, size)
    raise SdkError("connection reset")


DAMAGES: dict[str, Callable[[Chunks], Chunks]] = {
    "first byte": lambda chunks: flipped(chunks, 0),
    "second block": lambda chunks: flipped(chunks, BLOCK + 5),
    "last byte": lambda chunks: flipped(chunks, 2 * BLOCK + 99),
    "nothing": lambda chunks: iter(()),
    "empty chunks": lambda chunks: (part for chunk in chunks for part in (b"", chunk, b"")),
    "cut in a block": lambda chunks: cut(chunks, BLOCK + 1),
    "cut at a block": lambda chunks: cut(chunks, BLOCK),
    "cut at the end": lambda chunks: cut(chunks, 2 * BLOCK + 99),
    "broken": lambda chunks: broken(chunks, BLOCK + 70_000),
    "broken at the end": lambda chunks: broken(chunks, 1 << 40),
    "longer": lambda chunks: (part for source in (chunks, [b"more"]) for part in source),
    "from the second block on": lambda chunks: (chunk for number, chunk in enumerate(chunks) if number),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_download_that_goes_wrong_is_made_good(env: DownloadEnvironment, tmp_path: Path, damage: str) -> None:
    """What the SDK loses, damages or adds never reaches the caller, in bytes or in chunks."""
    data = made(tmp_path / "f", 2 * BLOCK + 100)
    env.sdk.damage = DAMAGES[damage]
    assert env.files.read_bytes("f") == data
    assert streamed(env, "f") == data


def test_a_file_that_the_sdk_may_not_read(env: DownloadEnvironment, tmp_path: Path) -> None:
    """It is printed by a command, since commands may."""
    data = made(tmp_path / "f", 3 << 20)
    env.sdk.faults.arm("download", "error_before", match="/f")
    assert env.files.read_bytes("f") == data


# -- what happens meanwhile ---------------------------------------------------------------------------------------


def replaced(path: Path) -> bytes:
    """Another file of the same size takes its place."""
    new = made(path.with_name("new"), path.stat().st_size)
    path.with_name("new").rename(path)
    return new


def rewritten(path: Path) -> bytes:
    """The last byte becomes another, in place."""
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(bytes([data[-1] ^ 1]))
    return path.read_bytes()


def shortened(path: Path) -> bytes:
    """The file loses its end."""
    os.truncate(path, BLOCK + 7)
    return path.read_bytes()


def grown(path: Path) -> bytes:
    """Bytes are added, which the reader does not get: its file ended before."""
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"more")
    return data


@pytest.mark.parametrize("change", [replaced, rewritten, shortened, grown])
def test_a_file_that_changes_before_it_is_downloaded(
    env: DownloadEnvironment, tmp_path: Path, change: Callable[[Path], bytes]
) -> None:
    """Bytes are read again and come whole, old or new; a stream, which cannot begin again, ends in `FileChanged`."""
    path = tmp_path / "f"
    for read in (env.files.read_bytes, lambda name: streamed(env, name)):
        made(path, 2 * BLOCK + 100)
        fault = env.sdk.faults.arm("download", "delay", match="/f")
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, "f")
            assert fault.reached.wait(60)
            new = change(path)
            fault.gate.set()
            if read == env.files.read_bytes or change is grown:
                assert reading.result(60) == new
            else:
                with pytest.raises(FileChanged):
                    reading.result(60)


def test_a_file_that_goes_before_it_is_downloaded(env: DownloadEnvironment, tmp_path: Path) -> None:
    """It is missed as any file that is not there."""
    made(tmp_path / "f", 3 << 20)
    fault = env.sdk.faults.arm("download", "delay", match="/f")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(env.files.read_bytes, "f")
        assert fault.reached.wait(60)
        (tmp_path / "f").unlink()
        fault.gate.set()
        with pytest.raises(FileNotFoundError) as caught:
            reading.result(60)
    assert caught.value.filename == "f"


def test_a_stream_that_nobody_wants_any_more_ends(env: DownloadEnvironment, tmp_path: Path) -> None:
    """Closing the iterator stops the download; no thread is left."""
    made(tmp_path / "f", 4 * BLOCK)
    before = {thread for thread in threading.enumerate() if thread.name == "hermes-env-read"}
    chunks = env.files.read_chunks("f")
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]  # a generator
    after = {thread for thread in threading.enumerate() if thread.name == "hermes-env-read"}
    assert after <= before


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["a b", "ü", "new\nline", os.fsdecode(b"\xff"), "-x", "$(touch evil)", "'", "*", "\\", "a\tb"],
    ids=ascii,
)
def test_names_that_could_go_wrong_are_not_downloaded(env: DownloadEnvironment, tmp_path: Path, name: str) -> None:
    """The SDK gets plain paths only; the file arrives all the same."""
    folder = tmp_path / "folder"
    folder.mkdir()
    data = made(folder / name, 3 << 20)
    assert env.files.read_bytes(f"folder/{name}") == data
    plain = name == "-x"
    assert (str(folder / name) in downloaded(env)) is plain
    assert not (tmp_path / "evil").exists()


def test_links_lead_to_the_file(env: DownloadEnvironment, tmp_path: Path) -> None:
    """The SDK is asked for the file itself, by its physical path."""
    (tmp_path / "real").mkdir()
    (tmp_path / "odd name").symlink_to("real")
    data = made(tmp_path / "real" / "f", 3 << 20)
    (tmp_path / "real" / "second").symlink_to("f")
    (tmp_path / "first").symlink_to("odd name/second")
    assert env.files.read_bytes("first") == data
    assert downloaded(env) == [str(tmp_path / "real" / "f")]


def test_without_a_digest_tool_nothing_is_downloaded_unproved(tmp_path: Path) -> None:
    """Where nothing computes SHA-256 the file is printed, and compared by the CRC."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS.split():
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout.strip()
        (tools / tool).symlink_to(found)
    root = tmp_path / "root"
    root.mkdir()
    name = "tests.backends.uploads:DownloadEnvironment"
    with open_environment(name, root=str(root), cwd=str(root), path=str(tools)) as env:
        assert isinstance(env, DownloadEnvironment)
        data = made(root / "f", 3 << 20)
        assert env.files.read_bytes("f") == data
        assert str(root / "f") not in downloaded(env)


# -- large output -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [*DAMAGES, None])
def test_large_output_is_made_good_too(env: DownloadEnvironment, tmp_path: Path, damage: str | None) -> None:
    """The output of a command comes by the same downloads, with the same proof."""
    data = made(tmp_path / "f", 2 * BLOCK + 100)
    if damage is not None:
        env.sdk.damage = DAMAGES[damage]
    result = env.exec("cat f; cat f >&2", output_limit=len(data))
    assert (result.stdout, result.stderr) == (data, data)


# -- the shells inside --------------------------------------------------------------------------------------------


def sums_of(data: bytes) -> tuple[str, ...]:
    """The digest of each block."""
    return tuple(hashlib.sha256(data[at : at + BLOCK]).hexdigest() for at in range(0, len(data), BLOCK))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("size", [SMALLEST, BLOCK, 2 * BLOCK + 99])
def test_every_shell_offers_a_file(tmp_path: Path, shell: str, size: int) -> None:
    """The path and the digests of the blocks, and nothing of the content."""
    data = made(tmp_path / "f", size)
    transfer = Transfer([Part("f", 0, None)], [list[bytes]().append], smallest_offer=SMALLEST)
    argv = [install(tmp_path / "bin", shell), "-c", READ_SCRIPT, "sh", *transfer.args()]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    transfer.on_output("stdout", done.stdout)
    assert not transfer.errors
    assert transfer.offers == {0: Offer(str(tmp_path / "f"), size, sums_of(data))}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_tells_the_digests_of_output(tmp_path: Path, shell: str) -> None:
    """Large output comes by downloads alone: no part has to be printed."""
    (tmp_path / "root").mkdir()
    data = made(tmp_path / "root" / "f", 2 * BLOCK + 99)
    root, sh = str(tmp_path / "root"), install(tmp_path / "bin", shell)
    with open_environment("tests.backends.uploads:DownloadEnvironment", root=root, cwd=root, sh=sh) as env:
        assert isinstance(env, DownloadEnvironment)
        assert env.exec("cat f", output_limit=len(data)).stdout == data
        assert len(downloaded(env)) == 1
        assert not env.sdk.faults.count("execute", " piece")
