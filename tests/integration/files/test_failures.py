"""What goes wrong outside: full disks, closed directories, mounted files, killed writers, noise, broken tools."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandTimeout, Write
from hermes_env.files import NotReplaceable

from .conftest import USERS, Place, make_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def mounted(target: Path, *args: str) -> Iterator[None]:
    """Something mounted there for the time of a block."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    done = subprocess.run(["mount", *args, target], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not possible here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", target], check=True)


@contextmanager
def tmpfs(place: Place, name: str, options: str) -> Iterator[Path]:
    """A small file system in the place, which belongs to the acting user."""
    directory = place.dir / name
    directory.mkdir()
    with mounted(directory, "-t", "tmpfs", "-o", options, "tmpfs"):
        place.own(directory)
        yield directory


@pytest.mark.shells
@pytest.mark.parametrize("how", ["bytes", "iterator", "batch"])
def test_full_disk(place: Place, how: str) -> None:
    """On a full disk the old bytes stay, no temporary file is left, and the error is ENOSPC for the caller's path."""
    with tmpfs(place, "small", "size=1m") as small:
        place.put("small/file", b"o" * 1000)
        data = b"n" * 3_000_000
        changes = [Write(path="small/file", data=iter([data]) if how == "iterator" else data)]
        if how == "batch":
            changes.append(Write(path="x", data=b""))
        with pytest.raises(OSError, match="No space left") as caught:
            place.files.commit(changes)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "small/file")
        assert place.cat("small/file") == b"o" * 1000
        assert os.listdir(small) == ["file"]
        place.files.write_bytes("small/file", b"fits")
        assert place.cat("small/file") == b"fits"


def test_no_inodes_left(place: Place) -> None:
    """Where no further file can be made the error is ENOSPC and the old bytes stay."""
    with tmpfs(place, "small", "size=1m,nr_inodes=3") as small:
        place.put("small/file", b"old")
        place.put("small/other", b"")
        with pytest.raises(OSError, match="No space left") as caught:
            place.files.write_bytes("small/file", b"new")
        assert caught.value.errno == errno.ENOSPC
        assert place.cat("small/file") == b"old"
        assert sorted(os.listdir(small)) == ["file", "other"]


def test_full_disk_while_writing_in_place(place: Place) -> None:
    """A file with two names on a full disk keeps its old bytes under both."""
    with tmpfs(place, "small", "size=1m") as small:
        path = place.put("small/one", b"o" * 600_000)
        os.link(path, small / "two")
        with pytest.raises(OSError, match="No space left"):
            place.files.write_bytes("small/one", b"n" * 400_000)
        assert place.cat("small/one") == place.cat("small/two") == b"o" * 600_000
        assert sorted(os.listdir(small)) == ["one", "two"]


@pytest.mark.users
def test_read_only_file_system(place: Place) -> None:
    """On a read-only file system every change is EROFS for the caller's path."""
    with tmpfs(place, "ro", "size=1m") as directory:
        place.put("ro/file", b"old")
        subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
        calls: list[Callable[[], object]] = [
            lambda: place.files.write_bytes("ro/file", b"new"),
            lambda: place.files.write_bytes("ro/new", b"new"),
            lambda: place.files.remove("ro/file"),
            lambda: place.files.make_dir("ro/dir"),
            lambda: place.files.move("ro/file", "ro/dst"),
        ]
        for call in calls:
            with pytest.raises(OSError, match="Read-only") as caught:
                call()
            assert caught.value.errno == errno.EROFS
            assert caught.value.filename.startswith("ro/")
        assert place.cat("ro/file") == b"old"


@pytest.mark.users
def test_mounted_file(place: Place) -> None:
    """A file that is itself a mount point is written in place, verified, and reported as not atomic."""
    source = place.put("source", b"old")
    target = place.put("target", b"hidden")
    with mounted(target, "--bind", str(source)):
        with pytest.raises(NotReplaceable, match="target"):
            place.files.commit([Write(path="target", data=b"new", allow_in_place=False)])
        assert place.cat("source") == b"old"
        result = place.files.write_bytes("target", b"new")
        assert (place.cat("target"), place.cat("source")) == (b"new", b"new")
        assert (result.atomic, result.verified) == (False, True)
        with pytest.raises(OSError, match="busy") as caught:
            place.files.remove("target")
        assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, "target")
    assert place.cat("target") == b"hidden"
    assert place.left_over() == []


@pytest.mark.users
def test_revoked_permissions(place: Place) -> None:
    """In a directory that may not be written, or over a file that may not, nothing changes: EACCES, caller's path."""
    if place.user == "root":
        pytest.skip("root is not stopped by permissions")
    place.put("kept", b"old", 0o444)
    (place.dir / "closed").mkdir()
    (place.dir / "closed" / "file").write_bytes(b"old")
    (place.dir / "closed" / "file").chmod(0o666)
    cases: dict[str, Callable[[], object]] = {
        "kept": lambda: place.files.write_bytes("kept", b"new"),
        "closed/file": lambda: place.files.write_bytes("closed/file", b"new"),
        "closed/new": lambda: place.files.write_bytes("closed/new", b"new"),
        "closed/gone": lambda: place.files.make_dir("closed/gone"),
    }
    for path, call in cases.items():
        with pytest.raises(PermissionError) as caught:
            call()
        assert (caught.value.errno, caught.value.filename) == (errno.EACCES, path)
    with pytest.raises(PermissionError) as removal:
        place.files.remove("closed/file")
    assert removal.value.filename == "closed/file"
    assert (place.cat("kept"), place.cat("closed/file")) == (b"old", b"old")
    assert place.left_over() == []
    assert os.listdir(place.dir / "closed") == ["file"]


_WRITER = """
import sys
sys.path[:0] = {path!r}
from tests.integration.files.conftest import ShellEnvironment
from hermes_env import open_environment
def chunks():
    for number in range(30):
        yield b"n" * 100_000
env = open_environment("local", cwd={home!r}) if {native} else ShellEnvironment(cwd={home!r}).open()
print("ready", flush=True)
while True:
    env.files.write_bytes("file", chunks())
    env.files.write_bytes("file", b"m" * 3_000_000)
"""


@pytest.mark.parametrize("how", ["native", "sh"])
def test_killed_writer(how: str, home: Path, request: pytest.FixtureRequest) -> None:
    """A client killed at any moment leaves the old or a new file whole, and the next write clears what it left."""
    with make_place(f"{how}-{USERS[0]}", home, request) as place:
        versions = {b"old" * 1000, b"n" * 3_000_000, b"m" * 3_000_000}
        place.put("file", b"old" * 1000)
        code = _WRITER.format(path=sys.path, home=str(home), native=place.native)
        for _ in range(5):
            with subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[3],
                start_new_session=True,
            ) as writer:
                assert writer.stdout is not None
                assert writer.stdout.readline() == b"ready\n"
                time.sleep(random.uniform(0.0, 0.3))
                writer.send_signal(signal.SIGKILL)
            assert place.cat("file") in versions
        deadline = time.monotonic() + 60
        while place.left_over() and time.monotonic() < deadline:
            # Commands of a killed client are ended by its watchdog, soon but not at once.
            place.files.write_bytes("file", b"last")
        assert place.left_over() == []


@pytest.mark.users
def test_living_writers_are_not_swept(place: Place) -> None:
    """A write removes temporary files of dead writers, and of nobody else."""
    place.files.write_bytes("first", b"")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().partition("-")[0]
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    birth = _birth("1")
    dead = subprocess.Popen(["true"])
    dead.wait()
    alive = f".hermes+{boot}.{birth}.{host}+{os.getpid()}+{_birth(str(os.getpid()))}+0123456789abcdef.1.tmp"
    names = {
        alive: True,
        alive.replace(f"+{os.getpid()}+", f"+{dead.pid}+"): False,
        alive.replace(f"+{_birth(str(os.getpid()))}+", "+17+"): False,
        alive.replace(f".{host}+", ".elsewhere+"): True,
        alive.replace(boot, "00000000"): True,
        alive.replace(f"+{os.getpid()}+", f"+{dead.pid}+").replace(".tmp", ".bak"): True,
        ".hermes+odd.tmp": True,
    }
    for name in names:
        place.put(name, b"")
    place.files.write_bytes("second", b"")
    left = set(os.listdir(place.dir)) - {"first", "second"}
    assert left == {name for name, stays in names.items() if stays}


def _birth(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]


@pytest.mark.shells
def test_timed_out_write_leaves_nothing(scripted: Place) -> None:
    """A write that is killed by its deadline leaves the old bytes and no temporary file."""
    scripted.put("file", b"old")

    def slow() -> Iterator[bytes]:
        yield b"x" * 100_000
        time.sleep(3)
        yield b"y"

    scripted.env.timeout = 1.0
    with pytest.raises(CommandTimeout):
        scripted.files.write_bytes("file", slow())
    scripted.env.timeout = 60.0
    assert scripted.cat("file") == b"old"
    assert scripted.left_over() == []
