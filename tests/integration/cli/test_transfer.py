"""`hermes-env read` and `hermes-env write`: file bytes through our standard streams."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from .conftest import PLUGIN, Run, Start

EVERY_BYTE = bytes(range(256)) * 640


@pytest.mark.parametrize("backend", ["local", PLUGIN])
def test_bytes_go_in_and_come_back(run: Run, tmp_path: Path, backend: str) -> None:
    """What was written is on the disk and comes back, byte for byte, with the proof on stderr only."""
    path = tmp_path / "data"
    written = run("write", backend, str(path), input=EVERY_BYTE)
    assert (written.returncode, written.stdout) == (0, b"")
    assert path.read_bytes() == EVERY_BYTE
    told = written.stderr.decode()
    assert told.count("\n") == 1 and hashlib.sha256(EVERY_BYTE).hexdigest() in told
    assert f"created {path}: {len(EVERY_BYTE)} bytes" in told and "verified by" in told and "NOT" not in told
    read = run("read", backend, str(path))
    assert (read.returncode, read.stdout, read.stderr) == (0, EVERY_BYTE, b"")


@pytest.mark.parametrize("name", ["two words", "-dash", "new\nline", "\udcff\udc80", "$HOME ~ *"])
def test_names_of_any_bytes(run: Run, tmp_path: Path, name: str) -> None:
    """A path is plain bytes: nothing in it is expanded, and it need not be text."""
    path = tmp_path / name
    assert run("write", "local", "--", str(path), input=b"content").returncode == 0
    assert path.read_bytes() == b"content"
    assert run("read", "local", "--", str(path)).stdout == b"content"


def test_an_empty_file(run: Run, tmp_path: Path) -> None:
    """Empty stdin makes an empty file."""
    path = tmp_path / "empty"
    assert run("write", "local", str(path), stdin=subprocess.DEVNULL).returncode == 0
    assert path.read_bytes() == b""
    assert run("read", "local", str(path)).stdout == b""


def test_mode_and_parents(run: Run, tmp_path: Path) -> None:
    """--mode takes octal; --make-parents makes what is missing above, and without it nothing is made."""
    path = tmp_path / "a" / "b" / "c"
    refused = run("write", "local", str(path), input=b"x")
    assert refused.returncode == 1 and not (tmp_path / "a").exists()
    assert run("write", "local", str(path), "--mode", "0604", "--make-parents", input=b"x").returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_write_on_condition(run: Run, tmp_path: Path) -> None:
    """--if-sha256 writes only over the bytes that the caller knows; otherwise the old ones stay."""
    path = tmp_path / "data"
    path.write_bytes(b"old")
    wrong, right = (hashlib.sha256(data).hexdigest() for data in (b"other", b"old"))
    refused = run("write", "local", str(path), "--if-sha256", wrong, input=b"new")
    assert refused.returncode == 1 and path.read_bytes() == b"old"
    assert run("write", "local", str(path), "--if-sha256", right, input=b"new").returncode == 0
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("verb", ["read", "write"])
@pytest.mark.parametrize("kind", ["directory", "fifo", "parent"])
def test_what_is_no_file_is_refused(run: Run, tmp_path: Path, verb: str, kind: str) -> None:
    """A directory, a FIFO and a path through a file give one line with the caller's path, and exit code 1."""
    path = tmp_path / kind
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        (tmp_path / "file").write_bytes(b"")
        path = tmp_path / "file" / "below"
    done = run(verb, "local", str(path), input=b"x")
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert text.count("\n") == 1 and str(path) in text and "Traceback" not in text


def test_a_missing_file(run: Run, tmp_path: Path) -> None:
    """Reading what is not there is one line and exit code 1."""
    done = run("read", "local", str(tmp_path / "absent"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"hermes-env: error: {tmp_path / 'absent'}: No such file or directory\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_write_leaves_the_old_bytes(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in the middle of the input: the old bytes stay and nothing lies beside them."""
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "data").write_bytes(b"old")
    process = start("write", "local", str(folder / "data"))
    assert process.stdin is not None
    process.stdin.write(bytes(1 << 20))
    process.stdin.flush()
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert (folder / "data").read_bytes() == b"old"
    assert os.listdir(folder) == ["data"]


def test_a_reader_that_leaves_early(start: Start, tmp_path: Path) -> None:
    """When nobody reads our stdout any more we end quietly, as by SIGPIPE."""
    (tmp_path / "data").write_bytes(bytes(8 << 20))
    process = start("read", "local", str(tmp_path / "data"))
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(10) == bytes(10)
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
