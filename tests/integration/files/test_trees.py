"""Folders copied between this machine and an environment."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from hermes_env import FileChanged
from hermes_env.files import Skipped

from .conftest import Place, ShellEnvironment
from .folders import NAMES, state


@pytest.mark.shells
def test_a_folder_goes_in_and_comes_back(place: Place, source: Path, tmp_path: Path) -> None:
    """Every name, byte, mode, link and empty folder arrives there, and here again; nothing is beside them."""
    up = place.files.upload(source, "there")
    assert state(place.dir / "there") == state(source)
    assert stat.S_IMODE((place.dir / "there").stat().st_mode) == stat.S_IMODE(source.stat().st_mode)
    down = place.files.download("there", tmp_path / "back")
    assert state(tmp_path / "back") == state(source)
    size = sum(len(content) for kind, _, content in state(source).values() if kind == "file")
    for result in (up, down):
        assert (result.files, result.size, result.unchanged) == (len(NAMES) + 5, size, 0)
        assert (result.directories, result.links, result.skipped) == (5, 5, ())
        assert result.verified and result.verified_by
    assert place.left_over() == []
    assert sorted(os.listdir(tmp_path)) == ["back", "source"]


@pytest.mark.shells
def test_what_is_there_is_not_sent_again(place: Place, source: Path, tmp_path: Path) -> None:
    """A second copy sends what differs by its bytes, not by its time; it puts modes and links right."""
    place.files.upload(source, "there")
    place.files.download("there", tmp_path / "back")
    for root in (place.dir / "there", tmp_path / "back"):
        (root / "zero").write_bytes(b"x")
        (root / "sub/secret").write_bytes(b"\0\r\n\xfe")
        (root / "run").chmod(0o600)
        (root / "empty").chmod(0o755)
        (root / "to-file").unlink()
        (root / "to-file").symlink_to("run")
        (root / "more").write_bytes(b"stays")
    up = place.files.upload(source, "there")
    expected = state(source)
    assert (up.files, up.size, up.unchanged, up.directories, up.links) == (2, 4, len(NAMES) + 3, 0, 1)
    assert state(place.dir / "there") == {**expected, b"more": ("file", 0o644, b"stays")}
    (place.dir / "there/more").unlink()
    down = place.files.download("there", tmp_path / "back")
    assert (down.files, down.size, down.unchanged, down.directories, down.links) == (2, 4, len(NAMES) + 3, 0, 1)
    assert state(tmp_path / "back") == {**expected, b"more": ("file", 0o644, b"stays")}


def test_special_files_are_named(place: Place, tmp_path: Path) -> None:
    """FIFOs and sockets are left out and named; nobody waits for them."""
    for root in (tmp_path / "source", place.dir / "there"):
        (root / "sub").mkdir(parents=True)
        os.mkfifo(root / "sub/fifo")
        (root / "file").write_bytes(b"x")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(root / "sock"))
    expected = {Skipped("sub/fifo", "fifo"), Skipped("sock", "socket")}
    up = place.files.upload(tmp_path / "source", "copy")
    down = place.files.download("there", tmp_path / "back")
    for result, root in ((up, place.dir / "copy"), (down, tmp_path / "back")):
        assert (set(result.skipped), result.files) == (expected, 1)
        assert set(state(root)) == {b"file", b"sub"}


def test_kinds_that_collide_are_refused(place: Place, tmp_path: Path) -> None:
    """A folder and a file in each other's place are told by path before anything is sent; links give way."""
    for name, code in (("a", IsADirectoryError), ("b", NotADirectoryError), ("c", NotADirectoryError)):
        source, target = tmp_path / f"source-{name}", place.dir / f"target-{name}"
        source.mkdir()
        target.mkdir()
        (source / "0first").write_bytes(b"x")
        (source / name).mkdir() if code is NotADirectoryError else (source / name).write_bytes(b"x")
        elsewhere = place.dir / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        if name == "a":
            (target / name).mkdir()
        elif name == "b":
            (target / name).write_bytes(b"old")
        else:
            (target / name).symlink_to(elsewhere)
        with pytest.raises(code) as caught:
            place.files.upload(source, f"target-{name}")
        assert caught.value.filename == f"target-{name}/{name}"
        assert os.listdir(target) == [name]
        assert os.listdir(elsewhere) == []


def test_a_link_is_replaced_and_never_followed(place: Place, tmp_path: Path) -> None:
    """Where a file comes and a link is, the link goes; what it leads to stays as it is, on both sides."""
    for outer in (place.dir, tmp_path):
        (outer / "outside").mkdir()
        (outer / "outside/file").write_bytes(b"old")
        (outer / "source").mkdir()
        (outer / "target").mkdir()
        (outer / "source/a").write_bytes(b"new")
        (outer / "source/b").write_bytes(b"new")
        (outer / "target/a").symlink_to("../outside/file")
        (outer / "target/b").symlink_to("../outside")
    place.files.upload(tmp_path / "source", "target")
    place.files.download("source", tmp_path / "target")
    for outer in (place.dir, tmp_path):
        assert state(outer / "outside") == {b"file": ("file", 0o644, b"old")}
        assert {name: content for name, (_, _, content) in state(outer / "target").items()} == {
            b"a": b"new",
            b"b": b"new",
        }


def test_a_link_here_leads_nothing_out(place: Place, tmp_path: Path) -> None:
    """A local folder of the target that is a link is not entered, wherever it leads."""
    (place.dir / "source/sub").mkdir(parents=True)
    (place.dir / "source/sub/file").write_bytes(b"new")
    (tmp_path / "outside").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target/sub").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError) as caught:
        place.files.download("source", tmp_path / "target")
    assert caught.value.filename == str(tmp_path / "target/sub")
    assert os.listdir(tmp_path / "outside") == []


def test_rights_are_not_brought_here(place: Place, tmp_path: Path) -> None:
    """Set-user-id, set-group-id and sticky bits of an environment do not arrive on this machine."""
    (place.dir / "source").mkdir()
    (place.dir / "source/tool").write_bytes(b"x")
    (place.dir / "source/tool").chmod(0o6755)
    (place.dir / "source/box").mkdir()
    (place.dir / "source/box").chmod(0o3777)
    place.files.download("source", tmp_path / "target")
    assert {name: mode for name, (_, mode, _) in state(tmp_path / "target").items()} == {b"tool": 0o755, b"box": 0o777}


def test_missing_parents(place: Place, source: Path, tmp_path: Path) -> None:
    """Parents of the folder are made when that is asked for; else the error has the caller's path."""
    with pytest.raises(FileNotFoundError) as caught:
        place.files.upload(source, "no/such/place")
    assert caught.value.filename == "no/such/place"
    place.files.upload(source, "no/such/place", make_parents=True)
    assert state(place.dir / "no/such/place") == state(source)
    with pytest.raises(FileNotFoundError) as caught:
        place.files.download("missing", tmp_path / "back")
    assert caught.value.filename == "missing"
    with pytest.raises(FileNotFoundError) as caught:
        place.files.download("no/such/place", tmp_path / "no/such")
    assert caught.value.filename == str(tmp_path / "no/such")
    (place.dir / "file").write_bytes(b"x")
    with pytest.raises(NotADirectoryError) as upload:
        place.files.upload(source, "file")
    assert upload.value.filename == "file"


def test_progress_and_expectation(place: Place, source: Path, tmp_path: Path) -> None:
    """What will be sent is told once, and progress ends there; a callback that raises ends the copy."""
    (source / "large").write_bytes(os.urandom(5 << 20))
    told: list[int] = []
    seen: list[int] = []
    result = place.files.upload(source, "there", progress=seen.append, expect=told.append)
    assert told == [result.size] and seen[-1] == result.size and seen == sorted(seen)
    seen.clear()
    down = place.files.download("there", tmp_path / "back", progress=seen.append, expect=told.append)
    assert told == [result.size, down.size] and seen[-1] == down.size == result.size and seen == sorted(seen)

    def stop(count: int) -> None:
        if count > 1 << 20:
            raise FileChanged("x", "seen enough")

    with pytest.raises(FileChanged, match="seen enough"):
        place.files.upload(source, "broken", progress=stop)
    with pytest.raises(FileChanged, match="seen enough"):
        place.files.download("there", tmp_path / "broken", progress=stop)
    assert place.left_over() == []
    assert list(tmp_path.rglob(".hermes*")) == []


def test_many_files_cost_few_round_trips(scripted: Place, tmp_path: Path) -> None:
    """Three hundred files go in by two commands and come back by four."""
    source = tmp_path / "source"
    for index in range(300):
        folder = source / str(index % 7)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(index)).write_bytes(b"%d" % index * (index % 50))
    env = scripted.env
    assert isinstance(env, ShellEnvironment)
    before = env.runs
    assert scripted.files.upload(source, "there", durable=False).files == 300
    middle = env.runs
    assert scripted.files.download("there", tmp_path / "back", durable=False).files == 300
    assert (middle - before, env.runs - middle) == (2, 4)
    assert state(tmp_path / "back") == state(scripted.dir / "there") == state(source)


@pytest.mark.parametrize("shell", ["zsh", "yash"])
def test_other_shells(home: Path, source: Path, tmp_path: Path, shell: str) -> None:
    """Shells that are started by the name ``sh`` carry folders as well."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "sh").symlink_to(program)
    with ShellEnvironment([str(tmp_path / "sh")], cwd=str(home)) as env:
        assert env.files.upload(source, "there", durable=False).verified
        assert env.files.download("there", tmp_path / "back", durable=False).verified
    assert state(tmp_path / "back") == state(home / "there") == state(source)
