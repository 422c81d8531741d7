"""Files: the SDK's own transfers meet what the fact sheet says of the vendor."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import httpx2
import pytest
from vercel.sandbox import SandboxApiError, SandboxFilesystemWriteError, SandboxPathNotFoundError

from tests.emulators.vercel.client import Emulator
from tests.waiting import until

if TYPE_CHECKING:
    from vercel.sandbox.sync import SyncSandbox, SyncSandboxRuntimeSession

Switched = Callable[..., None]


def mode(path: str) -> int:
    """Permission bits, as the kernel tells them."""
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("data", [b"", b"\0\r\n\xff" * 100, os.urandom(1 << 20)], ids=["empty", "odd", "large"])
def test_bytes_travel_both_ways(session: SyncSandboxRuntimeSession, data: bytes) -> None:
    """Uploads and downloads carry every byte, and an upload makes the directories above."""
    name = "dir/a 'b\"\\\n\N{GRINNING FACE}" + "x" * 120
    session.fs.write_bytes(name, data)
    assert session.fs.read_bytes(name) == data
    with open(f"{session.cwd}/{name}", "rb") as file:
        assert file.read() == data


def test_several_files_travel_in_one_request(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A batch is one request."""
    with session.fs.batch() as batch:
        for number in range(20):
            batch.write_bytes(f"f{number}", bytes([number]) * number)
    assert emulator.counts(box.name)["write"] == 1
    assert [session.fs.read_bytes(f"f{n}") for n in (0, 19)] == [b"", bytes([19]) * 19]


@pytest.mark.parametrize("style", ["open", "chmod"])
def test_a_new_file_has_the_mode_that_was_asked_for(
    session: SyncSandboxRuntimeSession, switched: Switched, style: str
) -> None:
    """A file asked to be private is private; without a mode it is 0644."""
    switched(upload_mode=style)
    session.fs.write_bytes("secret", b"1", mode=0o600)
    session.fs.write_bytes("plain", b"1")
    session.fs.write_bytes("open", b"1", mode=0o666)
    modes = [mode(f"{session.cwd}/{name}") for name in ("secret", "plain", "open")]
    assert modes == [0o600, 0o644, 0o644 if style == "open" else 0o666]


def test_a_private_file_may_be_readable_until_it_is_whole(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox, switched: Switched
) -> None:
    """Where the mode is set last, a half uploaded secret is 0644; where it is given to open, it is 0600 from birth."""
    for style, early in (("open", 0o600), ("chmod", 0o644)):
        switched(upload_mode=style)
        emulator.fail("write", "hold_inside", 100_000, sandbox=box.name)
        sender = threading.Thread(
            target=session.fs.write_bytes, args=(style, os.urandom(1 << 20)), kwargs={"mode": 0o600}
        )
        sender.start()
        emulator.wait_held("write")
        assert 0 < os.stat(f"{session.cwd}/{style}").st_size < 1 << 20
        assert mode(f"{session.cwd}/{style}") == early
        emulator.release()
        sender.join()
        assert mode(f"{session.cwd}/{style}") == 0o600


@pytest.mark.parametrize("how", ["truncate", "replace"])
def test_an_existing_file_is_truncated_or_replaced(
    session: SyncSandboxRuntimeSession, switched: Switched, how: str
) -> None:
    """An upload writes the same inode, whose mode stays, or another takes the name."""
    switched(overwrite=how)
    path = f"{session.cwd}/f"
    session.fs.write_bytes("f", b"longer before", mode=0o644)
    before = os.stat(path)
    session.fs.write_bytes("f", b"short", mode=0o600)
    after = os.stat(path)
    assert after.st_size == 5
    assert (after.st_ino == before.st_ino) == (how == "truncate")
    assert stat.S_IMODE(after.st_mode) == (0o644 if how == "truncate" else 0o600)
    assert os.listdir(session.cwd or "") == ["f"]


def test_a_cut_upload_leaves_its_beginning(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """An upload is not atomic: what had arrived stays."""
    data = os.urandom(4 << 20)
    emulator.fail("write", "abort", 1 << 20, sandbox=box.name)
    with pytest.raises((httpx2.TransportError, OSError)):
        session.fs.write_bytes("part", data, mode=0o600)
    with open(f"{session.cwd}/part", "rb") as file:
        left = file.read()
    assert 0 < len(left) < len(data) and data.startswith(left)


def test_an_abandoned_upload_leaves_its_beginning(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """What a client had sent before it gave up stays, and the file is not written any further."""
    data = os.urandom(4 << 20)

    def half() -> None:
        with session.fs.open("half", "wb", size=2 * len(data), permissions=0o600) as file:
            file.write(data)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half()
    until(lambda: "status" in emulator.log(box.name)[-1])
    with open(f"{session.cwd}/half", "rb") as file:
        left = file.read()
    assert 0 < len(left) <= len(data) and data.startswith(left)


def test_a_cut_download_is_an_error(session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox) -> None:
    """A download whose connection ends early raises."""
    session.fs.write_bytes("f", bytes(4 << 20))
    emulator.fail("read", "abort", 1 << 20, sandbox=box.name)
    with pytest.raises(httpx2.TransportError):
        session.fs.read_bytes("f")


def test_a_file_that_is_missing_is_named(session: SyncSandboxRuntimeSession) -> None:
    """A missing file is an error of its own kind; a directory and a FIFO are refused."""
    with pytest.raises(SandboxPathNotFoundError):
        session.fs.read_bytes("none")
    os.mkfifo(f"{session.cwd}/fifo")
    for name in (".", "fifo"):
        with pytest.raises(SandboxApiError) as caught:
            session.fs.read_bytes(name)
        assert caught.value.code == "file_error"


def test_what_cannot_be_written_is_named(session: SyncSandboxRuntimeSession) -> None:
    """A path that cannot be written is an error with the path."""
    session.fs.write_bytes("plain", b"")
    for name, size in (("plain/below", 1), ("/", 1), ("/proc/nothing", 4 << 20)):
        with pytest.raises(SandboxFilesystemWriteError) as caught:
            session.fs.write_bytes(name, os.urandom(size))
        assert caught.value.paths == (name,)


def test_directories_are_made(session: SyncSandboxRuntimeSession) -> None:
    """A directory is made with those above it, or is refused where one is missing."""
    session.fs.mkdir("a/b/c", recursive=True)
    assert os.path.isdir(f"{session.cwd}/a/b/c")
    with pytest.raises(SandboxPathNotFoundError):
        session.fs.mkdir("x/y", recursive=False)


def test_what_the_sdk_does_by_commands_works(session: SyncSandboxRuntimeSession) -> None:
    """Listing, moving and removing run scripts in the sandbox."""
    session.fs.write_bytes("d/one", b"1")
    session.fs.rename("d/one", "d/two")
    assert [entry.path for entry in session.fs.listdir("d")] == ["two"]
    session.fs.remove("d", recursive=True)
    assert not session.fs.exists("d")


@pytest.mark.skipif(os.geteuid() != 0, reason="another account can only be acted for by root")
def test_files_and_commands_belong_to_the_account() -> None:
    """With an account of its own, files and commands are that user's, and only `sudo` is root."""
    with Emulator(account="nobody") as emulator, closing(emulator.connect()) as client:
        session = client.create_sandbox(persistent=False).session()
        session.fs.write_bytes("d/f", b"x")
        shown = session.run_process("sh", ["-c", "id -un; stat -c %U . d d/f; echo $HOME"], capture_output=True)
        assert shown.stdout == f"nobody\nnobody\nnobody\nnobody\n{session.cwd}\n"
        root = session.run_process("sh", ["-c", "id -un; echo $HOME"], sudo=True, capture_output=True)
        assert root.stdout == "root\n/root\n"
        session.run_process("sh", ["-c", "umask 077; mkdir mine; echo x >mine/f"], sudo=True)
        with pytest.raises(SandboxFilesystemWriteError):
            session.fs.write_bytes("mine/g", b"x")
        with pytest.raises(SandboxApiError):
            session.fs.read_bytes("mine/f")
        assert os.stat(f"{session.cwd}/mine/f").st_uid == 0
