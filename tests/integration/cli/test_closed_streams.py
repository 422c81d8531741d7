"""Standard streams that are closed, full or unread: no output lands elsewhere, and the exit code tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import environment

_JOURNAL = '''
"""A backend that holds a file open, which gets the lowest free descriptor."""

import os

from cli_plugin import VaultEnvironment


class JournalEnvironment(VaultEnvironment):
    def _open(self):
        self.journals = [os.open(f"journal{n}", os.O_RDWR | os.O_CREAT) for n in range(3)]

    def _close(self):
        for journal in self.journals:
            os.close(journal)
'''
JOURNAL = "cli_journal:JournalEnvironment"
LOUD = ["exec", JOURNAL, "--no-stdin", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]


@pytest.fixture
def plugin(folder: Path) -> Path:
    """The folder of the plugins, with one that opens files."""
    (folder / "cli_journal.py").write_text(_JOURNAL)
    return folder


def shell(folder: Path, redirection: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command line with a redirection of sh."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m hermes_env "$@" {redirection}', sys.executable, *arguments],
        env=environment(folder),
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&-", "<&- >&- 2>&-", ">/dev/full"])
def test_output_without_a_place_is_our_own_failure(plugin: Path, redirection: str) -> None:
    """What cannot be written ends `exec` with 125, and goes into no file that got the number of a closed stream."""
    done = shell(plugin, redirection, *LOUD)
    assert done.returncode == 125, done
    assert all((plugin / f"journal{number}").read_bytes() == b"" for number in range(3))
    if "2>" not in redirection:
        assert b"our own stdout" in done.stderr


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_an_unwritable_stderr_is_our_own_failure(plugin: Path, redirection: str) -> None:
    """A stderr that takes nothing ends `exec` with 125 when the command writes there, else with the command's code."""
    assert shell(plugin, redirection, "exec", "local", "--", "sh", "-c", "echo e >&2; exit 3").returncode == 125
    assert shell(plugin, redirection, "exec", "local", "--", "sh", "-c", "echo o; exit 3").returncode == 3
    assert shell(plugin, redirection, "exec", "nowhere", "--", "true").returncode == 125
    assert shell(plugin, redirection, "read", "local", str(plugin / "missing")).returncode == 1


@pytest.mark.parametrize("redirection", [">&-", "<&- >&- 2>&-"])
def test_streams_that_nobody_uses_may_be_closed(plugin: Path, redirection: str) -> None:
    """A silent command with closed streams ends with its own code."""
    assert shell(plugin, redirection, "exec", JOURNAL, "--", "sh", "-c", "cat; exit 3").returncode == 3


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", ">&- 2>&-"])
def test_what_was_written_is_done_though_nobody_is_told(plugin: Path, redirection: str) -> None:
    """`write` and `cp` end with 0 when the file is there and only the note about it cannot be printed."""
    assert shell(plugin, redirection, "write", "local", str(plugin / "made"), stdin=b"data").returncode == 0
    assert (plugin / "made").read_bytes() == b"data"
    assert shell(plugin, redirection, "cp", "made", f"local:{plugin}/copy").returncode == 0
    assert (plugin / "copy").read_bytes() == b"data"


def test_nobody_reads_the_note(plugin: Path) -> None:
    """A stderr whose reader has gone does not make a failure of a write that was done."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stderr:
        done = subprocess.run(
            [sys.executable, "-m", "hermes_env", "write", "local", str(plugin / "made")],
            env=environment(plugin), cwd=plugin, input=b"data", stderr=stderr, timeout=120, check=False,
        )  # fmt: skip
    assert (done.returncode, (plugin / "made").read_bytes()) == (0, b"data")


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
@pytest.mark.parametrize("arguments", [("backends",), ("backends", "--json"), ("doctor", "local"), ("--help",), ()])
def test_a_listing_that_cannot_be_printed_failed(plugin: Path, arguments: tuple[str, ...], redirection: str) -> None:
    """Commands that print end with 1 and one line that names our stdout."""
    done = shell(plugin, redirection, *arguments)
    assert done.returncode == 1
    assert b"] our own stdout: " in done.stderr
    assert done.stderr.count(b"\n") == 1
