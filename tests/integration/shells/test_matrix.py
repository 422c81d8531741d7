"""Every shell as ``/bin/sh``, by every way to carry a command, in quiet and in noisy surroundings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, Unsupported
from tests.processes import marked
from tests.waiting import until

if TYPE_CHECKING:
    from .conftest import Opener

EVERY_BYTE = bytes(range(256)) * 300
ODD = "é\udcff'\"$HOME`id`\\\n*\t!\n"
LOUD = 'echo NOISE; echo NOISE >&2; cat() { echo BAD; }; alias rm="echo BAD"; trap "echo DEBUG" DEBUG; set -x; cd /'


def runs_whole(env: object, data: bytes = EVERY_BYTE) -> None:
    """Bytes, streams, status and cwd of a command that uses all of them."""
    from hermes_env import BaseEnvironment

    assert isinstance(env, BaseEnvironment)
    result = env.exec("cat; pwd >&2; exit 7", stdin=data)
    assert result.stdout == data
    assert result.stderr == os.fsencode(env.cwd or "") + b"\n"
    assert result.exit_code == 7


def test_bytes_streams_and_status(open_shell: Opener) -> None:
    """Every byte arrives and comes back, the streams are apart, and the status is the command's."""
    runs_whole(open_shell())


def test_unknown_length(open_shell: Opener) -> None:
    """stdin of unknown length ends where the caller's iterable ends."""

    def chunks() -> Iterator[bytes]:
        for number in range(40):
            yield bytes([number]) * (number * 50)

    assert open_shell().exec("cat", stdin=chunks()).stdout == b"".join(chunks())


def test_no_stdin(open_shell: Opener) -> None:
    """Without stdin a command that reads sees end-of-file at once."""
    result = open_shell().exec("cat; exit 4")
    assert (result.stdout, result.exit_code) == (b"", 4)


def test_unread_stdin(open_shell: Opener) -> None:
    """stdin that nobody reads is neither executed nor a reason to hang or to fail."""
    result = open_shell().exec("exit 5", stdin=b"exit 77\n" * 50_000)
    assert (result.stdout, result.exit_code) == (b"", 5)


def test_arguments_and_variables(open_shell: Opener, label: str) -> None:
    """Arguments and variables of any bytes arrive; yash, which cannot carry all, is refused by name."""
    env = open_shell()
    ascii_only = ODD.encode("ascii", "ignore").decode()
    assert env.exec(["printf", "%s", ascii_only]).stdout == ascii_only.encode()
    assert env.exec('printf %s "$A"', env={"A": ascii_only}).stdout == ascii_only.encode()
    if label == "yash":
        for refused in ({"cmd": ["printf", "%s", ODD]}, {"cmd": "true", "env": {"A": ODD}}):
            with pytest.raises(Unsupported, match="yash"):
                env.exec(**refused)
        return
    assert env.exec(["printf", "%s", ODD]).stdout == os.fsencode(ODD)
    assert env.exec('printf %s "$A"', env={"A": ODD}).stdout == os.fsencode(ODD)


def test_long_script(open_shell: Opener) -> None:
    """A script over an argument's limit runs, with its stdin at the first byte."""
    text = "# " + "x" * 70 + "\n"
    result = open_shell().exec(text * 2500 + "cat; exit 3", stdin=b"abc")
    assert (result.stdout, result.exit_code) == (b"abc", 3)


STATUSES = {"exit 0": 0, "false": 1, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143, "/nonexistent": 127}


def test_statuses(open_shell: Opener) -> None:
    """Exit codes are those of the command, 128 + n for death by signal n, in shells that count otherwise, too."""
    env = open_shell()
    got = {script: env.exec(["/bin/sh", "-c", script]).exit_code for script in STATUSES}
    assert got == STATUSES


def test_noisy_start_up(open_shell: Opener, tmp_path: Path) -> None:
    """Start-up files, functions, xtrace and a DEBUG trap of the service neither change nor add a byte."""
    rc = tmp_path / "rc"
    rc.write_text(LOUD)
    (tmp_path / ".zshenv").write_text(LOUD)
    noise = {"BASH_ENV": str(rc), "ENV": str(rc), "ZDOTDIR": str(tmp_path), "CDPATH": "/usr:/", "POSIXLY_CORRECT": "1"}
    runs_whole(open_shell(noise=noise))


def test_exported_functions(open_shell: Opener) -> None:
    """Functions that bash exports by the names of our tools do not take over."""
    noise = {f"BASH_FUNC_{name}%%": "() { echo BAD; }" for name in ("cat", "mv", "rm", "printf", "cd", "read")}
    result = open_shell(noise=noise).exec(["/bin/cat"], stdin=b"abc")
    assert (result.stdout, result.stderr, result.exit_code) == (b"abc", b"", 0)


def test_open_umask(open_shell: Opener, tmp_path: Path, transport: str) -> None:
    """The service's umask is the command's; our own files are private under any."""
    env = open_shell(umask=0)
    process = env.start("umask; : >made; while [ ! -e go ]; do sleep 0.05; done", stdin=b"secret")
    until((tmp_path / "made").exists)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o666
    for path in (tmp_path / "service" / "tmp").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    (tmp_path / "go").touch()
    assert int(process.wait(60).stdout, 8) == 0


@pytest.mark.parametrize("locale", ["C.UTF-8", "xx_XX.nonsense"])
def test_locales(open_shell: Opener, locale: str) -> None:
    """Bytes pass in every locale, also in one that does not exist."""
    env = open_shell(noise={"LC_ALL": locale, "LANG": locale})
    assert env.exec("cat; exit 3", stdin=EVERY_BYTE).stdout == EVERY_BYTE


def test_kill(open_shell: Opener, tmp_path: Path) -> None:
    """A kill ends the tree, a background session included, and the next command works."""
    env = open_shell()
    process = env.start("setsid sleep 600 & : >up; sleep 600")
    until((tmp_path / "up").exists)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert not caught.value.result.kill_unconfirmed
    assert not marked(process.id)
    assert env.exec("echo next").stdout == b"next\n"


def test_missing_directory(open_shell: Opener) -> None:
    """A directory that cannot be entered is named by the builtin error."""
    with pytest.raises(FileNotFoundError):
        open_shell().exec("true", cwd="/nonexistent")
