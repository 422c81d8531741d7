"""Files: the SDK's own transfers meet what the fact sheet says of the vendor."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from daytona import DaytonaError, DaytonaNotFoundError, FileUpload, Sandbox

if TYPE_CHECKING:
    from tests.emulators.daytona.client import Emulator

Switched = Callable[..., None]
BOUNDARY = b"\r\n--DAYTONA-FILE-BOUNDARY--"


@pytest.mark.parametrize("data", [b"", b"\0\r\n\xff" * 100, os.urandom(1 << 20)], ids=["empty", "odd", "large"])
def test_bytes_travel_both_ways(box: Sandbox, data: bytes) -> None:
    """Uploads and downloads carry every byte."""
    box.fs.upload_file(data, "dir/a 'b\"\\\n.bin")
    assert box.fs.download_file("dir/a 'b\"\\\n.bin") == data


def test_a_new_upload_is_world_readable(box: Sandbox, emulator: Emulator) -> None:
    """A new file is 0644, whatever its secret; an existing one keeps its mode and its inode."""
    home = emulator.sandboxes()[box.id]["home"]
    box.fs.upload_file(b"1", "new")
    assert os.stat(f"{home}/new").st_mode & 0o777 == 0o644
    box.fs.set_file_permissions("new", mode="600")
    before = os.stat(f"{home}/new")
    box.fs.upload_file(b"22", "new")
    after = os.stat(f"{home}/new")
    assert (after.st_mode, after.st_ino, after.st_size) == (before.st_mode, before.st_ino, 2)


def test_white_space_around_a_path_is_cut_off(box: Sandbox) -> None:
    """An upload to a name that ends in a space lands elsewhere."""
    box.fs.upload_file(b"x", "trail ")
    assert box.fs.download_file("trail") == b"x"


def test_a_download_ends_at_a_boundary_in_the_content(box: Sandbox, switched: Switched) -> None:
    """Content that holds the constant boundary comes back cut short, without an error."""
    box.fs.upload_file(b"head" + BOUNDARY + b"tail", "f")
    assert box.fs.download_file("f") == b"head"
    switched(fixed_boundary=False)
    assert box.fs.download_file("f") == b"head" + BOUNDARY + b"tail"


def test_streaming_an_empty_file_raises(box: Sandbox) -> None:
    """The SDK's stream of an empty file is an error."""
    box.fs.upload_file(b"", "empty")
    with pytest.raises(DaytonaError, match="No file data"):
        list(box.fs.download_file_stream("empty"))


def test_several_files_are_best_effort(box: Sandbox) -> None:
    """In one request of several files the good ones are written, and the error has only a status."""
    box.fs.upload_file(b"", "plain")
    files = [FileUpload(b"1", "ok"), FileUpload(b"2", "plain/below")]
    with pytest.raises(DaytonaError) as caught:
        box.fs.upload_files(files)
    assert type(caught.value) is DaytonaError and caught.value.status_code == 400
    assert box.fs.download_file("ok") == b"1"


def test_a_missing_file_is_named_by_the_coded_daemon(box: Sandbox, switched: Switched) -> None:
    """A missing file is `DaytonaNotFoundError`; an older daemon gives no message with it."""
    with pytest.raises(DaytonaNotFoundError):
        box.fs.get_file_info("none")
    switched(errors="bare")
    with pytest.raises(DaytonaNotFoundError) as caught:
        box.fs.get_file_info("none")
    assert caught.value.source is None


def test_a_cut_upload_leaves_its_beginning(box: Sandbox, emulator: Emulator) -> None:
    """What had arrived of an aborted upload stays, readable for everybody."""
    emulator.fail("upload", "abort", 300_000, sandbox=box.id)
    with pytest.raises(DaytonaError):
        box.fs.upload_file(bytes(8 << 20), "part")
    left = box.fs.get_file_info("part")
    assert 0 < left.size < 300_000 and left.permissions == "0644"


def test_a_cut_download_is_an_error(box: Sandbox, emulator: Emulator) -> None:
    """A download whose connection ends early raises."""
    box.fs.upload_file(bytes(4 << 20), "f")
    emulator.fail("download", "abort", 1 << 20, sandbox=box.id)
    with pytest.raises(DaytonaError):
        box.fs.download_file("f")


def test_a_transfer_can_be_throttled(box: Sandbox, emulator: Emulator) -> None:
    """A throttled upload takes the time that its rate asks for, and arrives."""
    emulator.fail("upload", "throttle", 1 << 20, sandbox=box.id)
    begin = time.monotonic()
    box.fs.upload_file_stream(io.BytesIO(bytes(512 << 10)), "slow")
    assert time.monotonic() - begin >= 0.4
    assert box.fs.get_file_info("slow").size == 512 << 10


def test_an_upload_can_be_held_half_way(box: Sandbox, emulator: Emulator) -> None:
    """A held upload has written what it had, and goes on when it is released."""
    import threading

    home = emulator.sandboxes()[box.id]["home"]
    emulator.fail("upload", "hold_inside", 100_000, sandbox=box.id)
    sender = threading.Thread(target=box.fs.upload_file, args=(bytes(1 << 20), "held"))
    sender.start()
    emulator.wait_held("upload")
    assert 0 < os.stat(f"{home}/held").st_size < 1 << 20
    emulator.heal()
    sender.join()
    assert os.stat(f"{home}/held").st_size == 1 << 20


@pytest.mark.parametrize("mode", ["0o600", "u+x"])
def test_modes_are_octal_digits(box: Sandbox, mode: str) -> None:
    """Modes are octal digits as text, nothing else."""
    box.fs.upload_file(b"", "f")
    with pytest.raises(DaytonaError) as caught:
        box.fs.set_file_permissions("f", mode=mode)
    assert caught.value.status_code == 400


def test_folders_listing_moving_and_removal(box: Sandbox) -> None:
    """The smaller file calls do what they say; a move never replaces."""
    box.fs.create_folder("a/b", "700")
    box.fs.upload_file(b"1", "a/b/one")
    box.fs.upload_file(b"2", "a/b/two")
    assert [f.name for f in box.fs.list_files("a/b")] == ["one", "two"]
    with pytest.raises(DaytonaError) as caught:
        box.fs.move_files("a/b/one", "a/b/two")
    assert caught.value.status_code == 409
    box.fs.delete_file("a", recursive=True)
    with pytest.raises(DaytonaNotFoundError):
        box.fs.get_file_info("a")


def test_a_reset_upload_has_no_status(box: Sandbox, emulator: Emulator) -> None:
    """An upload whose connection is reset raises an error without a status, of the base class or the connection's."""
    emulator.fail("upload", "drop_before", reset=True, sandbox=box.id)
    with pytest.raises(DaytonaError) as caught:
        box.fs.upload_file(b"x", "f")
    assert caught.value.status_code is None
