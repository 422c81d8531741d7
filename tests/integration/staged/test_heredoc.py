"""Heredoc mode: every byte through nothing but command text, at any length, or refused before anything runs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import CommandCancelled, StagingError, StdinMode, Unsupported, open_environment
from tests.backends.shells import SHELLS, install
from tests.backends.textonly import TextEnvironment

if TYPE_CHECKING:
    from tests.backends.faults import Kind

EVERY_BYTE = bytes(range(256)) + bytes(range(255, -1, -1))
TRICKY = b"-n\n-e\\c\\0123\\n'\"$HOME`id`%s%%\r\n\r\0\0001\n\n!\n\tEOF\n.\n" + b"\\" * 7
APPEND = "_h_p()"
"""Marks the text that writes a piece."""


def opened(root: Path, **options: Any) -> TextEnvironment:
    """An environment with options of the test."""
    root.mkdir(exist_ok=True)
    env = open_environment("tests.backends.textonly:TextEnvironment", root=str(root), cwd=str(root), **options)
    assert isinstance(env, TextEnvironment)
    return env


@pytest.fixture(params=SHELLS)
def label(request: pytest.FixtureRequest) -> str:
    """One shell after the other."""
    return str(request.param)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_every_byte_in_every_shell(tmp_path: Path, label: str, locale: str) -> None:
    """Every byte value, NUL included, arrives through the builtins of every shell, in both kinds of locale."""
    with opened(tmp_path / "service", sh=install(tmp_path / "bin", label), locale=locale) as env:
        for data in (EVERY_BYTE, TRICKY, b"-", b"\n", b"\0", b"no final newline"):
            result = env.exec("cat; exit 3", stdin=data)
            assert (result.stdout, result.exit_code) == (data, 3)


def test_long_data_in_every_shell(tmp_path: Path, label: str) -> None:
    """Data far over an argument's limit arrives piece by piece."""
    with opened(tmp_path / "service", sh=install(tmp_path / "bin", label)) as env:
        data = os.urandom(100_000) + TRICKY * 3000
        assert env.exec("cat", stdin=data).stdout == data
        assert env.faults.count("run", APPEND) > 3


@pytest.mark.parametrize("tool", ["printf", "base64", "wc", "cat", "head"])
def test_nothing_but_builtins_decodes(tmp_path: Path, label: str, tool: str) -> None:
    """Without a program that could decode, or count, the bytes are right all the same."""
    folder = tmp_path / "tools"
    folder.mkdir()
    # yash has its builtins echo, printf, [ and kill only where the programs exist.
    builtins = ("[", "echo", "printf", "kill")
    for name in ("mkdir", "rm", "mv", "od", "wc", "ls", "base64", "date", "dd", "sleep", "cat", "head", *builtins):
        found = shutil.which(name)
        if name != tool and found is not None:
            (folder / name).symlink_to(found)
    with opened(tmp_path / "service", sh=install(tmp_path / "bin", label), path=str(folder)) as env:
        assert env.exec("dd bs=1024 2>/dev/null", stdin=EVERY_BYTE + TRICKY).stdout == EVERY_BYTE + TRICKY


@pytest.mark.parametrize(
    "script",
    [
        "true; cat >copy",
        "cd . && cat >copy",
        "for i in 1; do cat >copy; done",
        "set -e; cat >copy; true",
        "if true; then cat >copy; fi # EOF",
        "cat >copy & wait $!; [ -s copy ] || cat >copy",
        "cat <<EOF >/dev/null\ntext\nEOF\ncat >copy",
    ],
)
def test_the_whole_command_gets_stdin(tmp_path: Path, script: str) -> None:
    """stdin belongs to the whole script, not to its last command: a target is never emptied with exit code 0."""
    with opened(tmp_path / "service") as env:
        assert env.exec(script, stdin=TRICKY).exit_code == 0
        assert (tmp_path / "service" / "copy").read_bytes() == TRICKY


def test_no_here_document_and_no_temporary_file(tmp_path: Path) -> None:
    """The text holds no here-document, and nothing but the private directory is written to."""
    with opened(tmp_path / "service") as env:
        env.exec("true", stdin=TRICKY.replace(b"EOF", b""))
        assert env.faults.count("run", "<<") == 0
        assert [path.name[:11] for path in (tmp_path / "service" / "tmp").iterdir()] == [".hermes-env"]


def test_unread_stdin(tmp_path: Path) -> None:
    """A command that reads nothing ends with its own status and without noise."""
    with opened(tmp_path / "service") as env:
        result = env.exec("exit 6", stdin=EVERY_BYTE * 100)
        assert (result.exit_code, result.stdout, result.stderr) == (6, b"", b"")


@pytest.mark.parametrize("kind", ["twice", "error_after", "error_before"])
def test_pieces_sent_again(tmp_path: Path, kind: Kind) -> None:
    """A piece that is sent twice, or whose reply is lost, is in the file once."""
    with opened(tmp_path / "service") as env:
        env.faults.arm("run", kind, match=APPEND)
        env.faults.arm("run", kind, match=APPEND)
        data = os.urandom(100_000)
        assert env.exec("cat", stdin=data).stdout == data


def test_link_lost_between_pieces(tmp_path: Path) -> None:
    """When pieces do not get through, nothing runs."""
    with opened(tmp_path / "service") as env:
        fault = env.faults.arm("run", "error_before", match=APPEND, times=100)
        with pytest.raises(StagingError):
            env.exec("touch ran", stdin=b"abc")
        fault.times = 0
        assert env.exec("[ ! -e ran ]", stdin=b"abc").ok


def test_kill_between_pieces(tmp_path: Path) -> None:
    """A command killed while its stdin is written never runs, and leaves nothing of it."""
    with opened(tmp_path / "service") as env:
        fault = env.faults.arm("run", "delay", match=APPEND)
        process = env.start("touch ran", stdin=b"canary" * 50_000)
        assert fault.reached.wait(30)
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(30)
        fault.gate.set()
        assert fault.landed.wait(30)
        assert env.exec("[ ! -e ran ]").ok
        deadline = time.monotonic() + 30
        while list((tmp_path / "service" / "tmp").glob("*/*.in")):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_limits_of_the_text(tmp_path: Path) -> None:
    """The service's limit of command text bounds the pieces, not the data; one that is too short is refused."""
    with opened(tmp_path / "service", limit=4096) as env:
        data = EVERY_BYTE * 20
        assert env.exec("cat", stdin=data).stdout == data
        assert max(len(text) for _, text in env.faults.calls) <= 4096
    with pytest.raises(Unsupported, match="4096"):
        opened(tmp_path / "service", limit=4095)


def test_pieces_are_private(tmp_path: Path) -> None:
    """While pieces are written the file is 0600 in a 0700 directory, whatever the umask of the service."""
    with opened(tmp_path / "service", umask=0) as env:
        fault = env.faults.arm("run", "delay", match=".sh'")
        process = env.start("umask; touch made", stdin=b"abc")
        assert fault.reached.wait(30)
        (home,) = (tmp_path / "service" / "tmp").iterdir()
        assert home.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in home.glob("*.in")} == {0o600}
        fault.gate.set()
        assert process.wait(30).stdout == b"0000\n"
        assert (tmp_path / "service" / "made").stat().st_mode & 0o777 == 0o666


def test_the_mode_is_declared(tmp_path: Path) -> None:
    """The exposure of the command text is visible in the declared mode."""
    assert TextEnvironment.stdin_mode is StdinMode.HEREDOC
