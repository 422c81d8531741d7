"""The SDK's own file calls, which run a program inside."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

import modal
import pytest
from modal import exception

if TYPE_CHECKING:
    from tests.emulators.modal.client import Emulator

BYTES = b"\0\x01\xff\r\n" * 4321


def host_path(emulator: Emulator, box: modal.Sandbox, path: str) -> str:
    """A path of the sandbox as this machine sees it."""
    return str(emulator.sandboxes()[box.object_id]["root"]) + path


@pytest.mark.parametrize("data", [b"", BYTES, os.urandom(3 << 20)], ids=["nothing", "controls", "3 MiB"])
def test_bytes_arrive(box: modal.Sandbox, emulator: Emulator, data: bytes) -> None:
    """What is written is what is read, and what another program sees."""
    box.filesystem.write_bytes(data, "/srv/deep/er/ä $x")
    seen = subprocess.run(
        ["sha256sum", host_path(emulator, box, "/srv/deep/er/ä $x")], capture_output=True, check=True
    ).stdout.split()[0]
    assert seen.decode() == hashlib.sha256(data).hexdigest()
    assert box.filesystem.read_bytes("/srv/deep/er/ä $x") == data


def test_a_broken_upload_goes_on(box: modal.Sandbox, emulator: Emulator) -> None:
    """After a cut connection the SDK asks how much arrived, and sends the rest."""
    data = os.urandom(2 << 20)
    emulator.fail("TaskExecStdinWriteStream", "abort", 700_000, times=2, sandbox=box.object_id)
    box.filesystem.write_bytes(data, "/srv/f")
    assert box.filesystem.read_bytes("/srv/f") == data
    assert emulator.counts(box.object_id)["TaskExecStdinStatus"] == 2


def test_a_lost_answer_to_an_upload_is_no_error(box: modal.Sandbox, emulator: Emulator) -> None:
    """Everything arrived, only the answer did not."""
    emulator.fail("TaskExecStdinWriteStream", "drop_after", sandbox=box.object_id)
    box.filesystem.write_bytes(BYTES, "/srv/f")
    assert box.filesystem.read_bytes("/srv/f") == BYTES


def test_a_stat_tells_what_is_there(box: modal.Sandbox) -> None:
    """Kind, size, mode and target of a link."""
    box.filesystem.write_bytes(b"abc", "/srv/f")
    box.exec("sh", "-c", "chmod 640 /srv/f; ln -s f /srv/l").wait()
    seen = box.filesystem.stat("/srv/f")
    assert (seen.name, seen.size, seen.mode & 0o7777, seen.type.value) == ("f", 3, 0o640, "file")
    assert [(one.name, one.type.value, one.symlink_target) for one in box.filesystem.list_files("/srv")][1:] == [
        ("l", "symlink", "f")
    ]


def test_directories_are_made_and_removed(box: modal.Sandbox) -> None:
    """With parents, and with everything below."""
    box.filesystem.make_directory("/srv/a/b/c")
    with pytest.raises(exception.SandboxFilesystemDirectoryNotEmptyError):
        box.filesystem.remove("/srv/a")
    with pytest.raises(exception.SandboxFilesystemPathAlreadyExistsError):
        box.filesystem.make_directory("/srv/a", create_parents=False)
    box.filesystem.remove("/srv/a", recursive=True)
    with pytest.raises(exception.SandboxFilesystemNotFoundError):
        box.filesystem.stat("/srv/a")


def test_errors_have_the_classes_of_the_sdk(box: modal.Sandbox) -> None:
    """A path that is missing, is a directory, or goes through a file."""
    box.filesystem.write_bytes(b"", "/srv/f")
    with pytest.raises(exception.SandboxFilesystemNotFoundError, match="/srv/none"):
        box.filesystem.read_bytes("/srv/none")
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        box.filesystem.read_bytes("/srv")
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        box.filesystem.write_bytes(b"", "/srv")
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        box.filesystem.write_bytes(b"", "/srv/f/g")
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        box.filesystem.list_files("/srv/f")


def test_files_of_a_sandbox_that_has_ended(box: modal.Sandbox, emulator: Emulator) -> None:
    """The SDK says that the sandbox is not there."""
    emulator.vanish(box.object_id, "terminated")
    with pytest.raises(exception.NotFoundError):
        box.filesystem.read_bytes("/srv/f")
