"""What paths name, conditions of commits, and what dead writers leave."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from hermes_env import FileChanged, InvalidArgument, Move, Remove, Write
from hermes_env.files import Expect, Survey

from .conftest import NOBODY

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Place


def sha(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def look(place: Place, *names: str, most: int | None = 1 << 20) -> Survey:
    """A survey of paths in the place."""
    return place.files.survey(names, most=most)


def test_a_survey_tells_what_paths_name(place: Place) -> None:
    """Bytes, digest, real path, place, identity, mode and kind of each path are those that the system tells."""
    place.put("plain", b"\x00\xff\r\n", 0o640)
    (place.dir / "dir").mkdir()
    place.own(place.dir / "dir")
    place.put("dir/in", b"inside")
    (place.dir / "link").symlink_to("dir/in")
    (place.dir / "way").symlink_to("dir")
    os.mkfifo(place.dir / "pipe")
    names = ("plain", "link", "way/in", "dir", "dir/..", "pipe", "./plain", f"{place.dir}/plain")
    found = look(place, *names).files
    assert set(found) == set(names)
    home = os.path.realpath(place.dir)
    assert found["plain"].data == b"\x00\xff\r\n" and found["plain"].sha256 == sha(b"\x00\xff\r\n")
    assert found["link"].data == found["way/in"].data == b"inside"
    assert [found[name].real for name in names] == [
        f"{home}/plain", f"{home}/dir/in", f"{home}/dir/in", f"{home}/dir", home,
        f"{home}/pipe", f"{home}/plain", f"{home}/plain",
    ]  # fmt: skip
    assert [found[name].place for name in names[:4]] == [
        f"{home}/plain", f"{home}/link", f"{home}/dir/in", f"{home}/dir",
    ]  # fmt: skip
    assert [name for name in names if found[name].link] == ["link"]
    assert found["dir"].data is None and found["pipe"].data is None and found["pipe"].error is None
    kinds = [getattr(found[name].stat, "kind", None) for name in ("plain", "link", "dir", "pipe")]
    assert kinds == ["file", "file", "directory", "fifo"]
    state = (place.dir / "plain").stat()
    assert found["plain"].identity is not None and found["plain"].identity[1] == state.st_ino
    assert found["plain"].stat is not None and found["plain"].stat.mode == 0o640


def test_a_survey_tells_what_is_missing(place: Place) -> None:
    """Only what provenly is not there is ENOENT; where it would be, and which directories it lacks, is told."""
    place.put("file", b"x")
    (place.dir / "dir").mkdir()
    (place.dir / "way").symlink_to("dir")
    (place.dir / "nowhere").symlink_to("way/none")
    (place.dir / "loop").symlink_to("loop")
    found = look(place, "no", "way/a/b/c", "nowhere", "file/x", "loop", "no/../x").files
    home = os.path.realpath(place.dir)
    assert (found["no"].real, found["no"].missing) == (f"{home}/no", ())
    assert (found["way/a/b/c"].real, found["way/a/b/c"].missing) == (
        f"{home}/dir/a/b/c",
        (f"{home}/dir/a", f"{home}/dir/a/b"),
    )
    assert (found["nowhere"].real, found["nowhere"].link) == (f"{home}/dir/none", True)
    kinds = {name: type(one.error) for name, one in found.items()}
    assert kinds["no"] is kinds["way/a/b/c"] is kinds["nowhere"] is FileNotFoundError
    assert kinds["file/x"] is NotADirectoryError and kinds["loop"] is OSError
    assert found["no/../x"].error is not None and found["no/../x"].real is None


@pytest.mark.parametrize(
    ("above", "error"),
    [("dangling", FileNotFoundError), ("loop", OSError), ("file", NotADirectoryError)],
)
def test_a_survey_tells_like_a_read_why_nothing_can_be_there(place: Place, above: str, error: type[OSError]) -> None:
    """What stands where a directory would have to be: a link that leads nowhere, a loop, a file."""
    place.put("file", b"x")
    (place.dir / "dangling").symlink_to("nowhere")
    (place.dir / "loop").symlink_to("loop")
    for path in (f"{above}/name", f"{above}/folder/name"):
        found = look(place, path).files[path]
        with pytest.raises(error) as read:
            place.files.read_bytes(path)
        assert isinstance(found.error, OSError) and found.error.errno == read.value.errno
        assert found.real is None and found.missing == () and found.stat is None


def test_a_survey_without_bytes_brings_digests(place: Place) -> None:
    """Without a limit only digests come; with one, a larger file is EFBIG and the others still arrive."""
    place.put("a", b"1234567890")
    place.put("b", b"xy")
    found = look(place, "a", "b", most=None).files
    assert (found["a"].data, found["a"].sha256) == (None, sha(b"1234567890"))
    found = look(place, "a", "b", most=5).files
    assert isinstance(found["a"].error, OSError) and found["b"].data == b"xy"
    if place.native or place.user != "nobody":
        return
    hidden = place.put("hidden", b"secret", 0o600)
    os.chown(hidden, 0, 0)
    assert isinstance(look(place, "hidden").files["hidden"].error, PermissionError)


def test_a_survey_tells_home_and_user(scripted: Place) -> None:
    """Home directory and user are those of commands."""
    found = look(scripted, "no")
    assert found.uid == (NOBODY if scripted.user == "nobody" else os.geteuid())
    assert found.home == scripted.env.exec(["printenv", "HOME"]).text.rstrip("\n")


def test_a_condition_on_other_files_stops_a_batch(place: Place) -> None:
    """A file that is not as expected stops the batch; one that is does not."""
    place.put("guard", b"as told")
    place.put("target", b"old")
    for wrong in (Expect(path="guard", sha256=sha(b"other")), Expect(path="no", sha256=sha(b"x"))):
        with pytest.raises(FileChanged):
            place.files.commit([Write(path="target", data=b"new"), wrong])
    with pytest.raises(FileExistsError):
        place.files.commit([Remove(path="target"), Expect(path="guard", sha256=None)])
    assert place.cat("target") == b"old"
    place.files.commit(
        [
            Write(path="target", data=b"new"),
            Expect(path="guard", sha256=sha(b"as told")),
            Expect(path="no", sha256=None),
        ]
    )
    assert (place.cat("target"), place.cat("guard"), place.left_over()) == (b"new", b"as told", [])


def test_a_real_path_is_not_left_through_a_link(place: Place) -> None:
    """With `real` nothing is changed through a symbolic link, neither at the end nor on the way."""
    (place.dir / "dir").mkdir()
    place.own(place.dir / "dir")
    place.put("dir/file", b"old")
    (place.dir / "way").symlink_to("dir")
    (place.dir / "link").symlink_to("dir/file")
    home = os.path.realpath(place.dir)
    for change in (
        Write(path=f"{home}/way/file", data=b"new", real=True),
        Write(path=f"{home}/link", data=b"new", real=True),
        Write(path=f"{home}/way/new", data=b"new", real=True),
        Remove(path=f"{home}/way/file", real=True),
        Move(path=f"{home}/way/file", dst=f"{home}/moved", real=True),
        Move(path=f"{home}/dir/file", dst=f"{home}/way/moved", real=True),
    ):
        with pytest.raises(FileChanged, match="symbolic link"):
            place.files.commit([change])
    with pytest.raises(InvalidArgument):
        place.files.commit([Write(path="dir/file", data=b"", real=True)])
    assert sorted(os.listdir(place.dir / "dir")) == ["file"] and place.cat("dir/file") == b"old"
    place.files.commit([Write(path=f"{home}/dir/file", data=b"new", real=True)])
    place.files.commit([Move(path=f"{home}/link", dst=f"{home}/renamed", real=True)])
    assert place.cat("dir/file") == b"new" and os.readlink(place.dir / "renamed") == "dir/file"


def test_a_sweep_removes_what_the_dead_left(place: Place, home: Path) -> None:
    """Temporary files of processes that are gone are removed, those of living ones are named and stay."""
    if place.user == "nobody":
        pytest.skip("names of files are the same for all users")
    deep = home / "deep"
    deep.mkdir()
    mark = _mark_of_this_machine()
    gone = subprocess.Popen(["true"])
    gone.wait()
    start = _birth(os.getpid())
    dead = [f".hermes+{mark}+{gone.pid}+1+0011.{count}" for count in (1, 2)]
    alive = f".hermes+{mark}+{os.getpid()}+{start}+0011.3.tmp"
    for where in (home, deep):
        for name in (dead[0] + ".tmp", dead[1] + ".bak", alive):
            (where / name).write_bytes(b"x")
    top = place.files.sweep([str(home)])
    assert (len(top.removed), len(top.busy)) == (1, 1)
    assert sorted(os.listdir(home)) == sorted([dead[1] + ".bak", alive, "deep"])
    place.files.sweep([str(home)], below=True, backups=True)
    assert os.listdir(deep) == [alive]
    assert sorted(os.listdir(home)) == sorted([alive, "deep"])


def _birth(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(") ")[2].split()[19]


def _mark_of_this_machine() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().partition("-")[0]
    return f"{boot}.{_birth(1)}.{os.uname().nodename}"
