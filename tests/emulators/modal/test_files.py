"""The SDK's own file calls, which run a program inside."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

import modal
import pytest
from modal import exception

from tests.emulators.modal.test_exec import on_this_machine

if TYPE_CHECKING:
    from tests.emulators.modal.client import Emulator

BYTES = b"\0\x01\xff\r\n" * 4321


@pytest.fixture
def place(emulator: Emulator, box: modal.Sandbox) -> str:
    """A directory of the sandbox that is not there yet."""
    return str(emulator.sandboxes()[box.object_id]["home"]) + "/files"


@pytest.mark.parametrize("data", [b"", BYTES, os.urandom(3 << 20)], ids=["nothing", "controls", "3 MiB"])
def test_bytes_arrive(box: modal.Sandbox, place: str, emulator: Emulator, data: bytes) -> None:
    """What is written is what is read, and what another program sees."""
    box.filesystem.write_bytes(data, f"{place}/deep/er/ä $x")
    path = on_this_machine(emulator, box, "files/deep/er/ä $x")
    seen = subprocess.run(["sha256sum", path], capture_output=True, check=True).stdout.split()[0]
    assert seen.decode() == hashlib.sha256(data).hexdigest()
    assert box.filesystem.read_bytes(f"{place}/deep/er/ä $x") == data


def test_a_broken_upload_goes_on(box: modal.Sandbox, place: str, emulator: Emulator) -> None:
    """After a cut connection the SDK asks how much arrived, and sends the rest."""
    data = os.urandom(2 << 20)
    emulator.fail("TaskExecStdinWriteStream", "abort", 700_000, times=2, sandbox=box.object_id)
    box.filesystem.write_bytes(data, f"{place}/f")
    assert box.filesystem.read_bytes(f"{place}/f") == data
    assert emulator.counts(box.object_id)["TaskExecStdinStatus"] == 2


def test_a_lost_answer_to_an_upload_is_no_error(box: modal.Sandbox, place: str, emulator: Emulator) -> None:
    """Everything arrived, only the answer did not."""
    emulator.fail("TaskExecStdinWriteStream", "drop_after", sandbox=box.object_id)
    box.filesystem.write_bytes(BYTES, f"{place}/f")
    assert box.filesystem.read_bytes(f"{place}/f") == BYTES


def test_a_stat_tells_what_is_there(box: modal.Sandbox, place: str) -> None:
    """Kind, size, mode and target of a link."""
    box.filesystem.write_bytes(b"abc", f"{place}/f")
    box.exec("sh", "-c", "chmod 640 f; ln -s f l", workdir=place).wait()
    seen = box.filesystem.stat(f"{place}/f")
    assert (seen.name, seen.size, seen.mode & 0o7777, seen.type.value) == ("f", 3, 0o640, "file")
    assert [(one.name, one.type.value, one.symlink_target) for one in box.filesystem.list_files(place)][1:] == [
        ("l", "symlink", "f")
    ]


def test_directories_are_made_and_removed(box: modal.Sandbox, place: str) -> None:
    """With parents, and with everything below."""
    box.filesystem.make_directory(f"{place}/a/b/c")
    with pytest.raises(exception.SandboxFilesystemDirectoryNotEmptyError):
        box.filesystem.remove(f"{place}/a")
    with pytest.raises(exception.SandboxFilesystemPathAlreadyExistsError):
        box.filesystem.make_directory(f"{place}/a", create_parents=False)
    box.filesystem.remove(f"{place}/a", recursive=True)
    with pytest.raises(exception.SandboxFilesystemNotFoundError):
        box.filesystem.stat(f"{place}/a")


def test_errors_have_the_classes_of_the_sdk(box: modal.Sandbox, place: str) -> None:
    """A path that is missing, is a directory, or goes through a file."""
    box.filesystem.write_bytes(b"", f"{place}/f")
    with pytest.raises(exception.SandboxFilesystemNotFoundError, match=f"{place}/none"):
        box.filesystem.read_bytes(f"{place}/none")
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        box.filesystem.read_bytes(place)
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        box.filesystem.write_bytes(b"", place)
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        box.filesystem.write_bytes(b"", f"{place}/f/g")
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        box.filesystem.list_files(f"{place}/f")


def test_files_of_a_sandbox_that_has_ended(box: modal.Sandbox, place: str, emulator: Emulator) -> None:
    """The SDK says that the sandbox is not there."""
    emulator.vanish(box.object_id, "terminated")
    with pytest.raises(exception.NotFoundError):
        box.filesystem.read_bytes(f"{place}/f")
