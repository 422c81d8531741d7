"""Sessions in every shell, by every way to carry a command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandTimeout, SessionLost, Unsupported
from tests.backends.shells import install
from tests.slow import ALL, told

if TYPE_CHECKING:
    from .conftest import Opener

CANNOT_PRINT_FUNCTIONS = {"dash", "busybox"}
VALUE = 'it\'s\nexport TWO=2\n"$HOME" `id` \\\t*\n\n'
DEFINE = """
greet() { printf '<%s>' "$1"; cat <<END
here $1
END
}
cd() { command cd "$@"; }
alias say='printf "a  %s" b' two='printf 1
printf 2' ls=false mv='mv -i' set='echo no' eval='echo no'
"""


@pytest.fixture(autouse=True)
def _brief(transport: str) -> None:
    """What a shell does does not depend on the transport: two of them will do for the run that everyone waits for."""
    if transport not in ("pipe", "staged") and not ALL:
        pytest.skip(told("takes minutes"))


@pytest.fixture
def shell(label: str, transport: str, tmp_path: Path) -> str:
    """The shell under test; only a namespace can have it as ``/bin/sh``."""
    return "/bin/sh" if transport in ("pipe", "framed") else install(tmp_path / "shell", label)


def test_a_session(open_shell: Opener, shell: str, tmp_path: Path) -> None:
    """Directory, values with newlines, options, a broken PATH and a kill, in one session."""
    with open_shell().session(shell=shell, cwd="/") as session:
        session.exec(f"cd {tmp_path}; mkdir -p 'a b'; export VALUE", env={"VALUE": VALUE}, check=True)
        assert session.exec("echo ${VALUE-none}").text == "none\n"
        session.exec('export VALUE="$GIVEN"; cd "a b"; set -eu; (exit 3)', env={"GIVEN": VALUE})
        result = session.exec('printf %s "$VALUE"; pwd >&2; cd - >/dev/null; exit 4', stdin=b"unread")
        assert (result.text, result.stderr_text, result.exit_code) == (VALUE, f"{tmp_path}/a b\n", 4)
        assert session.pwd() == str(tmp_path)
        with pytest.raises(CommandTimeout):
            session.exec("cd /; unset VALUE; sleep 600", timeout=0.5)
        assert session.exec('cd -; printf %s "$VALUE"').text == f"{tmp_path}/a b\n{VALUE}"
        session.exec("PATH=/nonexistent", check=True)
        assert session.exec("cd .").ok
        session.exec("PATH=/usr/bin:/bin", check=True)
        assert session.exec(["pwd"]).text == f"{tmp_path}/a b\n"


def test_functions_and_aliases(open_shell: Opener, shell: str, label: str) -> None:
    """They last as far as the shell can print them, whatever they are called; what is promised is what holds."""
    with open_shell().session(shell=shell) as session:
        able = label not in CANNOT_PRINT_FUNCTIONS
        assert session.keeps == {"cwd", "variables", "aliases", *(["functions"] if able else [])}
        session.exec(DEFINE, check=True)
        assert session.exec("say; two; ls || printf 3").text == "a  b123"
        assert session.exec('say; cd /; greet "it\'s"').text == ("a  b<it's>here it's\n" if able else "a  b")
        session.exec("unalias say two")
        assert not session.exec("say").ok


def test_functions_of_the_service(open_shell: Opener, label: str, transport: str) -> None:
    """Functions that the service exports are there until the session forgets them."""
    if label != "bash" or transport != "pipe":
        pytest.skip("only bash takes functions from its environment, and other shells on the way drop them")
    with open_shell(noise={"BASH_FUNC_hi%%": "() { echo hi; }"}).session(shell="/bin/sh") as session:
        assert session.exec("hi").text == "hi\n"
        session.exec("unset -f hi", check=True)
        assert not session.exec("hi").ok


def test_many_commands(open_shell: Opener, shell: str) -> None:
    """What a session keeps does not grow with its commands, also with those that save nothing."""
    with open_shell().session(shell=shell) as session:
        for number in range(12):
            session.exec(f"export N={number}" if number % 3 == 0 else "exec true", check=True)
        assert session.exec("printf %s $N; ls $_hermes_d | wc -l >&2").text == "9"
        assert int(session.exec("ls $_hermes_d | wc -l").text) < 30


def test_bytes(open_shell: Opener, shell: str, label: str) -> None:
    """Values of any bytes last; yash, which cannot hold them, refuses what the caller gives."""
    odd = os.fsdecode(bytes(range(1, 256)))
    env = open_shell()
    if label == "yash":
        with pytest.raises(Unsupported, match="yash"), env.session(shell=shell, env={"ODD": odd}):
            pass
        return
    with env.session(shell=shell, env={"ODD": odd}) as session:
        session.exec('TWICE="$ODD$ODD"; export TWICE', check=True)
        assert session.exec('printf %s "$TWICE"').stdout == os.fsencode(odd * 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk is made by mounting a small one")
def test_a_full_disk(open_shell: Opener, shell: str, tmp_path: Path) -> None:
    """What could not be saved is told before the next command runs; the session goes on as it was before."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], check=True)
    try:
        with open_shell().session(shell=shell, cwd="/", env={"TMPDIR": str(disk), "BIG": "x" * 9000}) as session:
            (disk / "filler").write_bytes(b"")
            session.exec(f"cd {tmp_path}; cat /dev/zero >{disk}/filler 2>/dev/null; :", check=True)
            with pytest.raises(SessionLost, match="nothing ran"):
                session.exec(f": >{tmp_path}/ran")
            (disk / "filler").unlink()
            assert session.exec("pwd").text == "/\n"
            assert not (tmp_path / "ran").exists()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
