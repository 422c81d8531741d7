"""Shells whose system lacks a tool, a writable /tmp, or /tmp: what works, works; what cannot is refused by name."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BaseEnvironment, CommandCancelled, Process, Unsupported, open_environment
from hermes_env.tools import FilePolicy, FileTools
from tests import engine
from tests.backends.bare import FRAMED_NEEDS, OPERATIONS, REFUSED, STAGED_NEEDS, farm
from tests.backends.shells import SHELLS, install
from tests.processes import marked
from tests.slow import ALL
from tests.waiting import until

from .conftest import BOXED, TRANSPORTS, boxed_shell

DATA = bytes(range(256)) * 700


def do_exec(env: BaseEnvironment, home: Path) -> None:
    """Bytes, streams, directory and exit code."""
    assert env.exec('pwd >&2; read -r line; echo "$line"; exit 7', stdin=b"one\n" * 9).stdout == b"one\n"
    assert env.exec(["printf", "%s", "a b"], env={"A": "x"}).stdout == b"a b"


def do_kill(env: BaseEnvironment, home: Path) -> None:
    """A tree ends, and is seen to have ended."""
    process = env.start("(while :; do sleep 1; done) 2>/dev/null & : >up; wait")
    if not comes(home / "up", process):
        process.wait(60)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    if caught.value.result.kill_unconfirmed:
        # yash reads a process's environment up to its first NUL only, so that without grep it may miss some.
        assert "yash" in os.path.realpath(env.options.sh) and not env.exec("command -v grep").ok
        for pid in marked(process.id):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not marked(process.id), 5)
    assert not marked(process.id)


def comes(path: Path, process: Process) -> bool:
    """Whether a file comes before the process ends."""
    while not path.exists():
        if process.state in ("finished", "cancelled", "unknown"):
            return False
        time.sleep(0.01)
    return True


def do_write(env: BaseEnvironment, home: Path) -> None:
    """Content of unknown length, checked where there is a hasher."""
    assert env.files.write_bytes("file", iter([DATA, DATA])).verified
    assert (home / "file").read_bytes() == DATA * 2


def do_read(env: BaseEnvironment, home: Path) -> None:
    """Content that another program made."""
    (home / "made").write_bytes(DATA)
    assert env.files.read_bytes("made") == DATA
    assert env.files.sha256("made") == hashlib.sha256(DATA).hexdigest()


def do_proc(env: BaseEnvironment, home: Path) -> None:
    """A file that claims to be empty."""
    assert env.files.read_bytes("/proc/version") == Path("/proc/version").read_bytes()


def do_look(env: BaseEnvironment, home: Path) -> None:
    """Status of a file and of a link."""
    (home / "five").write_bytes(b"12345")
    (home / "link").symlink_to("five")
    assert (env.files.stat("five").size, env.files.stat("five").kind) == (5, "file")
    assert {"five", "link"} <= {entry.name for entry in env.files.list_dir(".")}
    assert env.files.stat("link", follow=False).target == "five"


def do_change(env: BaseEnvironment, home: Path) -> None:
    """Names come and go."""
    env.files.make_dir("p/q", parents=True)
    (home / "p/q/x").write_bytes(b"1")
    env.files.move("p/q/x", "p/y")
    assert (home / "p/y").read_bytes() == b"1"
    env.files.remove("p/q")
    env.files.remove("p", recursive=True)
    assert not (home / "p").exists()


def do_tree(env: BaseEnvironment, home: Path) -> None:
    """A folder in and out."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        source, back = Path(place, "source"), Path(place, "back")
        (source / "sub/empty").mkdir(parents=True)
        (source / "a").write_bytes(DATA)
        (source / "sub/run").write_bytes(b"x")
        (source / "sub/run").chmod(0o755)
        (source / "link").symlink_to("a")
        env.files.upload(source, "sent")
        assert (home / "sent/a").read_bytes() == DATA
        assert os.readlink(home / "sent/link") == "a"
        assert (home / "sent/sub/run").stat().st_mode & 0o777 == 0o755
        env.files.download("sent", back)
        assert (back / "a").read_bytes() == DATA
        assert (back / "sub/empty").is_dir()


def do_edit(env: BaseEnvironment, home: Path) -> None:
    """An edit changes its line, or says why not."""
    (home / "text").write_bytes(b"one\ntwo\n")
    outcome = FileTools(env, policy=FilePolicy(workspace=env.cwd or "/")).str_replace("text", "one", "1")
    if outcome.error is not None:
        assert (home / "text").read_bytes() == b"one\ntwo\n"
        raise Unsupported(outcome.error.message)
    assert (home / "text").read_bytes() == b"1\ntwo\n"


DO: dict[str, Callable[[BaseEnvironment, Path], None]] = {name: globals()[f"do_{name}"] for name in OPERATIONS}


def tried(env: BaseEnvironment, home: Path) -> dict[str, str]:
    """Does everything; what was refused, with the message. Anything else is a failure."""
    refused = {}
    for name, do in DO.items():
        try:
            do(env, home)
        except Unsupported as error:
            refused[name] = str(error)
    return refused


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory outside /tmp, which some of these environments do not have."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="hermes-env-missing-"))
    (place / "home").mkdir()
    yield place / "home"
    shutil.rmtree(place)


def opened(home: Path, label: str, transport: str, path: str | None, tmp: str = "rw") -> BaseEnvironment:
    """An environment with that shell, transport and PATH."""
    options: dict[str, Any]
    if transport in ("pipe", "framed"):
        options = {"sh": boxed_shell(label), "noise": path and {"PATH": path}, "tmp": tmp}
    else:
        root = home.parent / "service"
        root.mkdir(exist_ok=True)
        options = {"sh": install(home.parent / "shell", label), "root": str(root), "path": path}
    return open_environment(TRANSPORTS[transport], cwd=str(home), timeout=120, **options)


def cases() -> list[Any]:
    """Every tool by one shell and transport after the other; all of them where slow tests are asked for."""
    ways = [(label, transport) for transport in TRANSPORTS for label in SHELLS if label in BOXED]
    if ALL:
        return [(*way, tool) for tool in REFUSED for way in ways]
    return [(*ways[5 * number % len(ways)], tool) for number, tool in enumerate(REFUSED)]


@pytest.mark.parametrize(("label", "transport", "tool"), cases())
def test_a_tool_is_missing(home: Path, label: str, transport: str, tool: str) -> None:
    """Exactly what the table says is refused, each time by the tool's name, and all else works."""
    path = farm(home.parent / "tools", tool)
    # busybox has its applets built in: it misses none of them.
    if transport in ("staged", "heredoc") and tool in STAGED_NEEDS and label != "busybox":
        with pytest.raises(Unsupported, match=tool):
            opened(home, label, transport, path)
        return
    with opened(home, label, transport, path) as env:
        refused = tried(env, home)
    wanted = set(REFUSED[tool])
    if transport == "framed" and tool in FRAMED_NEEDS:
        wanted |= {"exec", "write", "tree", "edit"} & set(refused)
    if label == "busybox":
        wanted &= set(refused)
    assert set(refused) == wanted, refused
    assert all(tool in message for message in refused.values()), refused


@pytest.mark.parametrize("label", BOXED if ALL else ["dash", "mksh"])
def test_no_sha256_at_all(home: Path, label: str) -> None:
    """Without a SHA-256 tool a CRC checks; without that a write says that nothing did. Nothing else is refused."""
    sums = ("openssl", "sha256sum", "shasum", "python3")
    for number, (without, by) in enumerate(((sums, "cksum"), ((*sums, "cksum"), None))):
        with opened(home, label, "pipe", farm(home.parent / f"tools{number}", *without)) as env:
            result = env.files.write_bytes("file", iter([DATA]))
            assert (result.verified, result.verified_by) == (by is not None, by)
            assert env.files.read_bytes("file") == DATA
            with pytest.raises(Unsupported, match="SHA-256"):
                env.files.write_bytes("file", b"x", if_sha256="0" * 64)
            assert (home / "file").read_bytes() == DATA


@pytest.mark.parametrize("label", BOXED)
def test_tmp_cannot_be_written(home: Path, label: str) -> None:
    """With a read-only /tmp everything works."""
    with opened(home, label, "pipe", None, tmp="ro") as env:
        assert not env.exec(": >/tmp/x").ok
        assert tried(env, home) == {}


def test_there_is_no_tmp(home: Path) -> None:
    """On a system that has no /tmp, and nothing but busybox, everything works."""
    if os.getuid() != 0 or shutil.which("busybox") is None:
        pytest.skip("needs root and busybox")
    root = home.parent / "root"
    with tarfile.open(fileobj=io.BytesIO(engine.busybox_root())) as packed:
        packed.extractall(root, filter="fully_trusted")
    (root / "tmp").rmdir()
    inside = root / "work"
    inside.mkdir()
    with open_environment("tests.backends.bare:RootEnvironment", root=str(root), cwd="/work", timeout=120) as env:
        assert not env.exec("test -e /tmp").ok
        assert tried(env, inside) == {}
    assert not (root / "tmp").exists()
    assert subprocess.run(["find", root, "-name", "*hermes*"], capture_output=True, check=True).stdout == b""


@pytest.mark.parametrize("tool", FRAMED_NEEDS)
def test_framed_stdin_without_its_tools(home: Path, tool: str) -> None:
    """Where stdin has to be framed, a command whose stdin cannot be is refused by the tool's name, and never runs."""
    data: Any = b"x" if tool == "head" else iter([b"x"])
    with opened(home, "dash", "framed", farm(home.parent / "tools", tool)) as env:
        with pytest.raises(Unsupported, match=tool):
            env.exec(": >ran; cat", stdin=data)
        assert not (home / "ran").exists()
        other: Any = iter([b"abc"]) if tool == "head" else b"abc"
        assert env.exec("cat", stdin=other).stdout == b"abc"
