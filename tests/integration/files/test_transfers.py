"""Copies between this machine and an environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hermes_env import FileChanged

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Place

CONTENT = bytes(range(256)) * 12_345


@pytest.fixture
def own(place: Place) -> Place:
    """A place where the acting user is the one of the test itself."""
    if place.native and place.user == "nobody":
        pytest.skip("both ends are this machine, with one user")
    return place


@pytest.mark.users
def test_upload(own: Place, tmp_path: Path) -> None:
    """A local file arrives whole, and progress ends at its size."""
    (tmp_path / "local").write_bytes(CONTENT)
    seen: list[int] = []
    result = own.files.upload(tmp_path / "local", "a/remote", make_parents=True, progress=seen.append)
    assert own.cat("a/remote") == CONTENT
    assert (result.verified, result.size, seen[-1]) == (True, len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)


@pytest.mark.users
def test_download(own: Place, tmp_path: Path) -> None:
    """A remote file arrives whole, keeps the mode of the local file it replaces, and leaves nothing beside it."""
    own.put("remote", CONTENT)
    local = tmp_path / "local"
    local.write_bytes(b"old")
    local.chmod(0o640)
    seen: list[int] = []
    result = own.files.download("remote", local, progress=seen.append)
    assert local.read_bytes() == CONTENT
    assert (local.stat().st_mode & 0o777, result.size, seen[-1]) == (0o640, len(CONTENT), len(CONTENT))
    assert os.listdir(tmp_path) == ["local"]


def test_failed_copies_name_their_file(own: Place, tmp_path: Path) -> None:
    """A missing file on either side is named as given, and the local file stays as it was."""
    local = tmp_path / "local"
    local.write_bytes(b"old")
    with pytest.raises(FileNotFoundError) as caught:
        own.files.download("missing", local)
    assert caught.value.filename == "missing"
    assert local.read_bytes() == b"old"
    with pytest.raises(FileNotFoundError) as upload:
        own.files.upload(tmp_path / "none", "remote")
    assert upload.value.filename == str(tmp_path / "none")
    assert os.listdir(tmp_path) == ["local"]
    assert os.listdir(own.dir) == []


def test_progress_may_stop_a_download(own: Place, tmp_path: Path) -> None:
    """An error in the progress callback ends the copy; nothing is left here."""
    own.put("remote", CONTENT)

    def stop(_: int) -> None:
        raise FileChanged("remote", "seen enough")

    with pytest.raises(FileChanged, match="seen enough"):
        own.files.download("remote", tmp_path / "local", progress=stop)
    assert os.listdir(tmp_path) == []


def test_upload_of_the_same_bytes(own: Place, tmp_path: Path) -> None:
    """A file that is there with the same bytes is reported as unchanged, keeps its inode, and is not sent again."""
    (tmp_path / "local").write_bytes(CONTENT)
    own.files.upload(tmp_path / "local", "remote")
    before = os.stat(own.dir / "remote")
    sizes: list[int] = []
    seen: list[int] = []
    result = own.files.upload(tmp_path / "local", "remote", expect=sizes.append, progress=seen.append)
    assert (result.files, result.unchanged, result.size, result.verified) == (0, 1, 0, True)
    assert (os.stat(own.dir / "remote").st_ino, sizes, seen) == (before.st_ino, [0], [])
    other = 0o604
    assert own.files.upload(tmp_path / "local", "remote", mode=other).files == 1
    assert os.stat(own.dir / "remote").st_mode & 0o777 == other
    (tmp_path / "local").write_bytes(CONTENT[:-1] + b"?")
    assert own.files.upload(tmp_path / "local", "remote").files == 1
    assert own.cat("remote") == CONTENT[:-1] + b"?"


def test_download_of_the_same_bytes(own: Place, tmp_path: Path) -> None:
    """A local file with the same bytes is left alone; with others of the same size it is replaced."""
    own.put("remote", CONTENT)
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    before = local.stat().st_ino
    seen: list[int] = []
    result = own.files.download("remote", local, progress=seen.append)
    assert (result.files, result.unchanged, result.path) == (0, 1, str(local))
    assert (local.stat().st_ino, seen) == (before, [])
    local.write_bytes(CONTENT[:-1] + b"?")
    assert own.files.download("remote", local).files == 1
    assert local.read_bytes() == CONTENT
