"""Containers without a shell: commands are refused by name, files go through the engine's archives."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    FileChanged,
    InvalidArgument,
    MakeDir,
    Move,
    RollbackFailed,
    Unsupported,
    Write,
    attach,
    open_environment,
)
from tests import images
from tests.engine import Engine

ODD = bytes(range(256)) * 700 + b"\0no newline at the end"
RUN: dict[str, Any] = {"entrypoint": ["/app/sleep", "600"], "ttl": 600}


@pytest.fixture
def bare(engine: Engine) -> Iterator[BaseEnvironment]:
    """A container with one program, /app/sleep, that runs."""
    images.ensure_distroless(engine)
    with open_environment("docker", image=images.DISTROLESS, host=engine.host, tmpfs=["/memory"], **RUN) as env:
        yield env


@pytest.fixture
def root(bare: BaseEnvironment, engine: Engine) -> Path:
    """The container's root, as the kernel shows it on this machine."""
    pid = engine.inspect(bare.ref.partition("://")[2], "{{.State.Pid}}")
    return Path(f"/proc/{pid.strip()}/root")


def sha256sum(path: Path) -> str:
    """The digest by another program."""
    return subprocess.run(["sha256sum", path], capture_output=True, check=True, text=True).stdout.split()[0]


def test_no_keeper_fits(engine: Engine) -> None:
    """Without an entry point of its own such an image cannot be held open: refused at opening, and told what helps."""
    images.ensure_distroless(engine)
    with pytest.raises(BackendUnavailable, match=r"/bin/sh.*entrypoint="):
        open_environment("docker", image=images.DISTROLESS, host=engine.host)


def test_commands_are_refused(bare: BaseEnvironment) -> None:
    """A command is refused by what is missing; the environment lives on."""
    for command in ("true", ["/app/sleep", "0"]):
        with pytest.raises(Unsupported, match="/bin/sh"):
            bare.exec(command)
    assert bare.alive()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 3_000_001])
def test_bytes_arrive(bare: BaseEnvironment, root: Path, size: int) -> None:
    """Written bytes are there as another program sees them, and come back; memory and streams are alike."""
    data = os.urandom(size)
    sources: dict[str, Any] = {"a": data, "b": io.BytesIO(data), "c": iter([data[:100], data[100:]])}
    for name, given in sources.items():
        result = bare.files.write_bytes(f"/app/{name}", given)
        assert (result.size, result.sha256) == (size, hashlib.sha256(data).hexdigest())
        assert result.verified and result.created and not result.atomic
        assert sha256sum(root / "app" / name) == result.sha256
        assert bare.files.read_bytes(f"/app/{name}") == data
        assert b"".join(bare.files.read_chunks(f"/app/{name}")) == data
    assert bare.files.read_bytes("/app/a", offset=100, limit=50) == data[100:150]
    assert bare.files.sha256("/app/a") == hashlib.sha256(data).hexdigest()


def test_mode_and_owner_stay(bare: BaseEnvironment, root: Path) -> None:
    """An existing file keeps its mode and owner; a new one has those that are told."""
    (root / "app/old").write_bytes(b"old")
    os.chown(root / "app/old", 12, 34)
    os.chmod(root / "app/old", 0o4751)
    bare.files.write_bytes("/app/old", ODD)
    bare.files.write_bytes("/app/new", ODD, mode=0o600)
    old, new = (root / "app/old").stat(), (root / "app/new").stat()
    assert (old.st_mode & 0o7777, old.st_uid, old.st_gid) == (0o4751, 12, 34)
    assert (new.st_mode & 0o7777, new.st_uid, new.st_gid) == (0o600, 0, 0)
    told = bare.files.stat("/app/old")
    assert (told.kind, told.size, told.mode, told.uid, told.gid) == ("file", len(ODD), 0o4751, 12, 34)


def test_a_user_owns_what_is_new(engine: Engine) -> None:
    """New files belong to the user of the options, looked up in the container's own files."""
    images.ensure_distroless(engine)
    with open_environment("docker", image=images.DISTROLESS, host=engine.host, **RUN) as env:
        env.files.write_bytes("/etc/passwd", b"root:x:0:0::/:\nagent:x:1000:1001::/:\n", make_parents=True)
        for user, owner in {"4321:1234": (4321, 1234), "agent": (1000, 1001), "agent:0": (1000, 0)}.items():
            container = env.ref.partition("://")[2]
            with open_environment("docker", container=container, host=engine.host, user=user) as theirs:
                theirs.files.write_bytes(f"/{user}", b"x")
                told = theirs.files.stat(f"/{user}")
                assert (told.uid, told.gid) == owner
        with (
            open_environment("docker", container=container, host=engine.host, user="nobody") as theirs,
            pytest.raises(InvalidArgument, match="nobody"),
        ):
            theirs.files.write_bytes("/file", b"x")


def test_links_are_followed_inside(bare: BaseEnvironment, root: Path, tmp_path: Path) -> None:
    """A link leads to its target inside the container, also an absolute one; it stays a link."""
    (tmp_path / "outside").write_bytes(b"outside")
    (root / "app/to-file").symlink_to("real")
    (root / "app/real").write_bytes(b"1")
    (root / "to-app").symlink_to("/app")
    (root / "escape").symlink_to(f"../../../..{tmp_path}/outside")
    bare.files.write_bytes("/to-app/to-file", b"2")
    assert (root / "app/real").read_bytes() == b"2" and (root / "app/to-file").is_symlink()
    with pytest.raises(FileNotFoundError):
        bare.files.write_bytes("/escape", b"broken out")
    assert (tmp_path / "outside").read_bytes() == b"outside"
    assert bare.files.stat("/app/to-file", follow=False).target == "real"


def test_conditions_and_parents(bare: BaseEnvironment, root: Path) -> None:
    """A condition that does not hold changes nothing; parents are made only on request."""
    bare.files.write_bytes("/app/file", b"1")
    with pytest.raises(FileChanged):
        bare.files.write_bytes("/app/file", b"2", if_sha256="0" * 64)
    bare.files.write_bytes("/app/file", b"3", if_sha256=hashlib.sha256(b"1").hexdigest())
    with pytest.raises(FileChanged):
        bare.files.commit([Write(path="/app/file", data=b"4", if_absent=True)])
    assert (root / "app/file").read_bytes() == b"3"
    with pytest.raises(FileNotFoundError):
        bare.files.write_bytes("/new/deep/file", b"5")
    assert not (root / "new").exists()
    bare.files.write_bytes("/new/deep/file", b"5", make_parents=True)
    assert (root / "new/deep/file").read_bytes() == b"5"
    assert [entry.path for entry in bare.files.list_dir("/new")] == ["/new/deep"]
    assert {"/app", "/new"} <= {entry.path for entry in bare.files.list_dir("/")}


def test_what_cannot_be_is_refused(bare: BaseEnvironment, root: Path) -> None:
    """Directories, special files, memory file systems and what needs a program are refused; nothing changes."""
    os.mkfifo(root / "app/fifo")
    for path, code in {"/app": errno.EISDIR, "/app/fifo": errno.EINVAL, "/app/sleep/x": errno.ENOTDIR}.items():
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno tells
            bare.files.write_bytes(path, b"x")
        assert caught.value.errno == code
    for path in ("/memory/file", "/proc/version", "/dev/null"):
        with pytest.raises(Unsupported, match="in memory only"):
            bare.files.write_bytes(path, b"x")
    with pytest.raises(Unsupported, match="moved"):
        bare.files.commit([Write(path="/app/first", data=b"x"), Move(path="/app/sleep", dst="/app/s")])
    with pytest.raises(Unsupported, match="removed"):
        bare.files.remove("/app/sleep")
    assert sorted(os.listdir(root / "app")) == ["fifo", "sleep"]


def test_a_batch_is_put_back(bare: BaseEnvironment, root: Path) -> None:
    """When a change fails, replaced files get their old bytes; a new name, which cannot be removed, is reported."""
    (root / "app/one").write_bytes(ODD)
    os.chown(root / "app/one", 7, 8)
    failing = Write(path="/app/sleep/x", data=b"")
    with pytest.raises(NotADirectoryError):
        bare.files.commit([Write(path="/app/one", data=b"new"), failing])
    assert (root / "app/one").read_bytes() == ODD and (root / "app/one").stat().st_uid == 7
    with pytest.raises(RollbackFailed) as caught:
        bare.files.commit([MakeDir(path="/app/made"), Write(path="/app/one", data=b"new"), failing])
    assert caught.value.paths == ("/app/made",) and "/app/made" in caught.value.__notes__[0]
    assert (root / "app/one").read_bytes() == ODD


def test_a_read_only_root(engine: Engine) -> None:
    """Where the container allows no archive, the write says so by its errno."""
    images.ensure_distroless(engine)
    with open_environment("docker", image=images.DISTROLESS, host=engine.host, read_only=True, **RUN) as env:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno tells
            env.files.write_bytes("/app/file", b"x")
        assert caught.value.errno == errno.EROFS
        assert env.files.read_bytes("/app/sleep")[:4] == b"\x7fELF"


def test_a_container_of_others(bare: BaseEnvironment, engine: Engine) -> None:
    """A joined container without a shell is treated alike; one that is gone is told apart from a missing file."""
    bare.files.write_bytes("/app/file", ODD)
    with attach(bare.ref, host=engine.host) as again:
        assert again.files.read_bytes("/app/file") == ODD
        with pytest.raises(FileNotFoundError):
            again.files.read_bytes("/app/none")
