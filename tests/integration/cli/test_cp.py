"""`hermes-env cp`: files and folders between an environment and this machine."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
from pathlib import Path

import pytest

from .conftest import PLUGIN, Run, Start


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a file, a program, a link and a FIFO in it."""
    root = tmp_path / "source"
    (root / "sub").mkdir(parents=True)
    (root / "sub/every").write_bytes(bytes(range(256)) * 100)
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("run")
    os.mkfifo(root / "fifo")
    return root


def same(one: Path, other: Path) -> bool:
    """Whether diff, which follows no link, finds no difference besides the FIFO."""
    command = ["diff", "-r", "--no-dereference", "--exclude=fifo", str(one), str(other)]
    modes = [stat.S_IMODE((root / "run").stat().st_mode) for root in (one, other)]
    return subprocess.run(command, check=False).returncode == 0 and modes[0] == modes[1]


@pytest.mark.parametrize("backend", ["local", PLUGIN])
def test_a_folder_goes_in_and_comes_back(run: Run, source: Path, tmp_path: Path, backend: str) -> None:
    """A folder is copied both ways; stderr counts, names what was left out, and says how it was verified."""
    there, back = tmp_path / "there", tmp_path / "back"
    for words in ((str(source), f"{backend}:{there}"), (f"{backend}:{source}", str(back))):
        done = run("cp", *words)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        skipped, told = done.stderr.decode().splitlines()
        assert skipped == "hermes-env: left out fifo: it is a fifo"
        assert told.startswith("hermes-env: copied 2 files (25610 bytes), 2 new folders, 1 link to ")
        assert "verified by" in told and "NOT" not in told
    assert same(source, there) and same(source, back)
    again = run("cp", str(source), f"{backend}:{there}")
    assert b"copied 0 files (0 bytes), 2 unchanged to " in again.stderr


def test_a_file_goes_into_a_folder(run: Run, tmp_path: Path) -> None:
    """A target that ends in a slash gets the copy under the source's name; missing parents are made when asked."""
    (tmp_path / "file").write_bytes(b"content")
    assert run("cp", str(tmp_path / "file"), f"local:{tmp_path}/a/b/").returncode == 1
    assert run("cp", "--make-parents", str(tmp_path / "file"), f"local:{tmp_path}/a/b/").returncode == 0
    assert (tmp_path / "a/b/file").read_bytes() == b"content"
    assert run("cp", "--make-parents", f"local:{tmp_path}/a/b/file", f"{tmp_path}/c/").returncode == 0
    assert (tmp_path / "c/file").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("source", "target"),
    [("a", "b"), ("local:/a", "local:/b"), ("./local:a", "b"), ("local:", "b"), ("nosuch:/a", "b")],
)
def test_wrong_ends(run: Run, tmp_path: Path, source: str, target: str) -> None:
    """Exactly one end is in an environment, whose backend exists; else it is one line and exit code 2."""
    done = run("cp", source, target)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1


def test_names_of_any_bytes(run: Run, tmp_path: Path) -> None:
    """Paths on both sides are plain bytes, colons among them."""
    name = "two: words\n\udcff*"
    (tmp_path / name).write_bytes(b"content")
    assert run("cp", str(tmp_path / name), f"local:{tmp_path}/copy {name}").returncode == 0
    assert (tmp_path / f"copy {name}").read_bytes() == b"content"


@pytest.mark.parametrize("on_terminal", [True, False])
def test_the_bar_is_for_terminals(start: Start, tmp_path: Path, source: Path, *, on_terminal: bool) -> None:
    """A progress bar is drawn on a terminal only, and is gone at the end."""
    (source / "fifo").unlink()
    (source / "large").write_bytes(os.urandom(20 << 20))
    main, side = pty.openpty()
    process = start("cp", str(source), f"{PLUGIN}:{tmp_path}/there", stderr=side if on_terminal else subprocess.PIPE)
    os.close(side)
    shown = b""
    try:
        while on_terminal and (data := os.read(main, 1 << 16)):
            shown += data
    except OSError:
        # The other side of the terminal has closed.
        pass
    finally:
        os.close(main)
    assert process.wait(60) == 0
    if process.stderr is not None:
        shown += process.stderr.read()
    assert (b"\x1b[" in shown) == on_terminal
    assert shown.rstrip().splitlines()[-1].endswith(b"verified by sha256sum") or b"verified by openssl" in shown
    assert same(source, tmp_path / "there")
