"""Script texts and the requests that carry them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest

from hermes_env import Change, MakeDir, Move, Remove, Write
from hermes_env.files._script_read import LIST_SCRIPT, READ_SCRIPT, STAT_SCRIPT, SUM_SCRIPT
from hermes_env.files._script_survey import SURVEY_SCRIPT
from hermes_env.files._script_write import COMMIT_SCRIPT, FIND_SCRIPT, SWEEP_SCRIPT
from hermes_env.files._write_request import WriteRequest

SCRIPTS = {
    "commit": COMMIT_SCRIPT,
    "sweep": SWEEP_SCRIPT,
    "find": FIND_SCRIPT,
    "survey": SURVEY_SCRIPT,
    "read": READ_SCRIPT,
    "sum": SUM_SCRIPT,
    "stat": STAT_SCRIPT,
    "list": LIST_SCRIPT,
}
NONCE = "0123456789abcdef"


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_ascii_and_short(name: str) -> None:
    """Scripts are ASCII, since transports damage the rest, and fit into one argument of 64 Ki characters."""
    script = SCRIPTS[name]
    assert script.isascii()
    assert len(script) < 20_000
    assert "<<" not in script


@pytest.mark.parametrize("shell", ["dash", "bash", "mksh", "zsh", "yash", "ksh", "busybox"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_parse(name: str, shell: str) -> None:
    """Every shell that is installed accepts the syntax."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    done = subprocess.run([*command, "-n", "-c", SCRIPTS[name]], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_contents_never_ride_in_arguments() -> None:
    """Arguments hold names, sizes and digests; contents are on stdin, with the manifest behind an iterator."""
    changes: list[Change] = [Write(path="-x", data=b"secret"), Write(path="y", data=iter([b"se", b"cret"]), mode=0o640)]
    request = WriteRequest(changes, NONCE, with_cksum=False, durable=True)
    assert request.args == [
        NONCE, "-", "1", "2", "2",
        "W", "./-x", "", "", "", "k",
        "W", "./y", "", "", "0640", "k",
    ]  # fmt: skip
    stdin = request.stdin()
    sent = b"".join(stdin)  # type: ignore[arg-type]
    digest = hashlib.sha256(b"secret").hexdigest()
    manifest = f"6 {digest} - 6 {digest} - ".encode()
    assert sent == b"secretsecret" + manifest + b"%d " % (10**9 + len(manifest)) + NONCE.encode()


def test_bytes_are_announced() -> None:
    """Bytes in memory need no manifest behind them; other changes carry their flags."""
    changes: list[Change] = [
        Write(path="/a", data=b"", make_parents=True, if_absent=True, hardlinks="break"),
        Remove(path="b/", recursive=True, if_sha256="A" * 64),
        Move(path="c", dst="d/", overwrite=True),
        MakeDir(path="e", parents=True),
    ]
    request = WriteRequest(changes, NONCE, with_cksum=True, durable=False)
    digest = hashlib.sha256(b"").hexdigest()
    assert request.args[:5] == [NONCE, f"0 {digest} 4294967295 ", "0", "4", "1"]
    assert request.args[5:] == [
        "W", "/a", "", "absent", "", "bp",
        "R", "./b", "", "a" * 64, "", "df",
        "M", "./c", "./d", "", "", "o",
        "D", "./e", "", "", "", "p",
    ]  # fmt: skip
