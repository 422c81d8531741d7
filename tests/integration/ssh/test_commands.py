"""Commands over one connection: bytes, status, both streams at once, noise of login scripts."""

from __future__ import annotations

import hashlib
import os
import string
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from hermes_env import BackendUnavailable, BaseEnvironment, open_environment
from tests import sshd

if TYPE_CHECKING:
    from tests.sshd import Sshd

EVERY_BYTE = bytes(range(256)) * 3
NOISE = "echo NOISE\necho MORE NOISE >&2\n"
SHELLS = ("bash", "dash", "busybox sh", "fish", "zsh", "tcsh")


def test_stdout_and_stderr_are_exact(env: BaseEnvironment) -> None:
    """Both streams arrive apart, with NUL bytes and without a final newline."""
    result = env.exec(r"printf 'a\0b'; printf 'c\0d\n\n' >&2")
    assert (result.stdout, result.stderr, result.exit_code) == (b"a\0b", b"c\0d\n\n", 0)


def test_stdin_is_exact(env: BaseEnvironment) -> None:
    """Every byte value arrives, and so does end-of-file."""
    assert env.exec("cat", stdin=EVERY_BYTE).stdout == EVERY_BYTE
    assert env.exec("cat").stdout == b""


def test_argv_is_literal(env: BaseEnvironment) -> None:
    """No shell on the way changes an argument, not even a login shell with its own quoting."""
    words = ["a b", "it's", '"$HOME"', "*", "!x", "\\\\", "line\nline", "", "\u00e9", "\udcff"]
    expected = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert env.exec(["printf", r"%s\0", *words]).stdout == expected


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 128, 137, 255])
def test_exit_codes_are_only_exit_codes(env: BaseEnvironment, code: int) -> None:
    """Every status is the command's own, 255 and 125 too."""
    assert env.exec(f"exit {code}").exit_code == code


@pytest.mark.parametrize(("signal", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("HUP", 129)])
def test_death_by_signal_is_128_plus_n(env: BaseEnvironment, signal: str, code: int) -> None:
    """A command that dies by a signal has that status, and no shell talks about it on its stderr."""
    result = env.exec(f"kill -s {signal} $$")
    assert (result.exit_code, result.stderr) == (code, b"")


def test_a_signal_for_the_whole_group_is_the_commands(env: BaseEnvironment) -> None:
    """The shell that carries a command survives a signal to the group, and the command's dispositions are default."""
    assert env.exec("kill -s TERM 0").exit_code == 143
    assert env.exec("trap").stdout == b""


def test_environment_and_directory(env: BaseEnvironment) -> None:
    """Variables of any bytes and a directory with odd characters arrive though the server accepts none."""
    value = "l1\nl2 'x' \u00e9\udcfe$(id)"
    script = 'mkdir -p "$1" && cd "$1" && pwd'
    folder = env.exec(["sh", "-c", script, "sh", "/tmp/hermes env 'dir'"]).stdout
    result = env.exec('printf %s "$V"; pwd >&2', env={"V": value}, cwd="/tmp/hermes env 'dir'")
    env.exec(["rmdir", "/tmp/hermes env 'dir'"])
    assert result.stdout == os.fsencode(value)
    assert result.stderr == folder == b"/tmp/hermes env 'dir'\n"


def test_exported_names_of_one_letter_are_the_accounts(start: Callable[..., Sshd]) -> None:
    """What a login environment exports reaches a command as it is, whatever our own scripts call their variables."""
    path = sshd.find("bash")
    assert path is not None
    names = string.ascii_lowercase
    server = start(shell=path, rc="".join(f"export {name}={name * 3}\n" for name in names))
    with open_environment("ssh", **server.options()) as env:
        for _ in range(3):
            result = env.exec("env | grep '^[a-z]='")
            assert sorted(result.text.split()) == [f"{name}={name * 3}" for name in names]


def test_a_missing_directory_is_named(env: BaseEnvironment) -> None:
    """The builtin error tells that nothing ran."""
    with pytest.raises(FileNotFoundError) as caught:
        env.exec("touch /tmp/never", cwd="/no/such/place")
    assert caught.value.filename == "/no/such/place"


@pytest.mark.parametrize("target", ["1", "2"])
def test_three_mebibytes_on_one_stream(env: BaseEnvironment, target: str) -> None:
    """More than the window that both streams share, while the other one is silent."""
    result = env.exec(f"head -c 3145728 /dev/zero >&{target}", timeout=60)
    assert sorted((result.stdout_total, result.stderr_total)) == [0, 3 << 20]


def test_three_mebibytes_everywhere_and_unread_stdin(env: BaseEnvironment) -> None:
    """Full output windows and a stdin that nobody reads do not wait for each other."""
    script = "head -c 3145728 /dev/zero >&2; head -c 3145728 /dev/zero; exit 4"
    result = env.exec(script, stdin=bytes(8 << 20), timeout=60)
    assert (result.stdout_total, result.stderr_total, result.exit_code) == (3 << 20, 3 << 20, 4)


def test_large_echo(env: BaseEnvironment) -> None:
    """Stdin over every window while the output comes back."""
    data = os.urandom(24 << 20)
    result = env.exec("cat", stdin=data, output_limit=32 << 20, timeout=120)
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("size", [1, 200, 1 << 16])
def test_iterated_stdin(env: BaseEnvironment, size: int) -> None:
    """Chunks of any size arrive in order."""
    chunks = [os.urandom(size) for _ in range(50)]
    result = env.exec("sha256sum", stdin=iter(chunks))
    assert result.stdout.split()[0].decode() == hashlib.sha256(b"".join(chunks)).hexdigest()


def test_closed_stdin_is_normal(env: BaseEnvironment) -> None:
    """A command that closes its stdin early has its own status, whatever was still to be sent."""
    result = env.exec("exec <&-; sleep 0.2; echo done; exit 9", stdin=bytes(20 << 20), timeout=60)
    assert (result.stdout, result.exit_code) == (b"done\n", 9)
    assert env.exec("head -c 5", stdin=iter([bytes(1 << 20)] * 30), timeout=60).stdout == bytes(5)


def test_background_child_does_not_hold_the_command(env: BaseEnvironment) -> None:
    """The command is over when its main process is, and the held streams are reported."""
    began = time.monotonic()
    result = env.exec("sleep 30 & echo $!")
    assert time.monotonic() - began < 15
    assert result.exit_code == 0
    assert "stdout" in result.held
    env.exec(f"kill {result.text.strip()}")


def test_output_that_looks_like_a_mark(env: BaseEnvironment) -> None:
    """Bytes with which our own marks begin are the command's own when the rest differs."""
    data = b"\x1a" + b"0" * 32 + b"+\n\x1a\x1a" + b"f" * 32 + b"-0\n\x1a"
    result = env.exec("cat; cat /dev/null; printf '\\032' >&2", stdin=data)
    assert (result.stdout, result.stderr) == (data, b"\x1a")


def test_live_stdin_and_output(env: BaseEnvironment) -> None:
    """A line is answered while the command runs."""
    process = env.start('while read -r l; do echo "got $l"; done; echo end', live_stdin=True)
    output = iter(process)
    process.write(b"one\n")
    assert next(output) == ("stdout", b"got one\n")
    process.close_stdin()
    assert b"".join(data for _, data in output) == b"end\n"
    assert process.wait(30).exit_code == 0


def test_merged_streams_keep_their_order(env: BaseEnvironment) -> None:
    """Both streams as one, in the order of writing."""
    script = "echo 1; echo 2 >&2; echo 3; echo 4 >&2"
    assert env.exec(script, merge_stderr=True).stdout == b"1\n2\n3\n4\n"


@pytest.fixture(params=SHELLS)
def noisy(request: pytest.FixtureRequest, start: Callable[..., Sshd]) -> Sshd:
    """A server whose login shell prints on both streams before it runs anything."""
    shell = request.param.split()[0]
    path = sshd.find(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return start(shell=request.param.replace(shell, path, 1), rc=NOISE if shell != "tcsh" else "echo NOISE\n")


def test_any_login_shell(noisy: Sshd) -> None:
    """Bytes, words, variables and status are exact whatever the login shell is and prints."""
    with open_environment("ssh", **noisy.options()) as env:
        assert env.exec("cat; cat >&2 /dev/null; exit 3", stdin=EVERY_BYTE).stdout == EVERY_BYTE
        result = env.exec("exit 3")
        assert (result.stdout, result.stderr, result.exit_code) == (b"", b"", 3)
        words = ["it's", "!x", "a\\\\b", "$HOME", "\n"]
        assert env.exec(["printf", "%s|", *words]).text == "it's|!x|a\\\\b|$HOME|\n|"
        assert env.exec('printf %s "$V"', env={"V": "a'b!c\\\\\n"}).text == "a'b!c\\\\\n"
        assert env.exec("kill -s TERM $$").exit_code == 143


def test_the_noise_is_real(start: Callable[..., Sshd]) -> None:
    """The same server makes a plain ssh client show the noise: the test above tests something."""
    path = sshd.find("bash")
    assert path is not None
    server = start(shell=path, rc=NOISE)
    plain = subprocess.run(
        ["ssh", "-F", "none", "-i", str(server.key), "-p", str(server.port), "-l", server.user,
         "-o", f"UserKnownHostsFile={server.known_hosts}", "127.0.0.1", "echo out"],
        capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=True,
    )  # fmt: skip
    assert plain.stdout == b"NOISE\nout\n"
    assert b"MORE NOISE" in plain.stderr


@pytest.mark.parametrize("rc", ["cat >/dev/null\n", "read x\n", "exit 0\n", "exec sleep 15\n"])
def test_login_scripts_that_break_every_command(start: Callable[..., Sshd], rc: str) -> None:
    """An account whose scripts take our stdin or run nothing is refused at once, with what it said."""
    path = sshd.find("bash")
    assert path is not None
    server = start(shell=path, rc=f"echo HELLO FROM RC\n{rc}")
    with pytest.raises(BackendUnavailable, match="HELLO FROM RC") as caught:
        open_environment("ssh", **server.options(connect_timeout=3))
    assert caught.value.reason == "denied"


def test_login_scripts_that_break_one_command(start: Callable[..., Sshd]) -> None:
    """Text taken away between two commands makes the next one fail as a whole, never in part."""
    path = sshd.find("bash")
    assert path is not None
    server = start(shell=path, rc="if [ -e ~/eat ]; then read x; fi\n")
    log = server.home / "log"

    def ran(*, wanted: bool) -> int:
        """Run commands until one ends as wanted; how many ran."""
        count = 0
        while True:
            try:
                assert env.exec(f"echo ran >>{log}").ok
                count += 1
                if wanted:
                    return count
            except BackendUnavailable:
                if not wanted:
                    return count

    with open_environment("ssh", **server.options()) as env:
        (server.home / "eat").touch()
        count = ran(wanted=False)
        (server.home / "eat").unlink()
        count += ran(wanted=True)
    assert log.read_text() == "ran\n" * count


def test_many_threads_share_the_connection(env: BaseEnvironment) -> None:
    """Eight commands at once do not mix their bytes."""
    failures: list[object] = []

    def work() -> None:
        data = os.urandom(1 << 20)
        for _ in range(3):
            result = env.exec("cat", stdin=data)
            if result.stdout != data:
                failures.append(result)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
