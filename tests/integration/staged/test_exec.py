"""What a staged environment carries: bytes both ways, privately and once."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.backends.uploads import UploadEnvironment
from tests.integration.staged.services import EVERY_BYTE, homes, opened

SHELLS = ("bash", "bash --posix", "dash", "busybox ash", "mksh", "zsh", "yash")


@pytest.mark.parametrize("size", [0, 1, 4096, 65_537, 131_072, 3 << 20])
def test_bytes_go_in_and_come_out(env: UploadEnvironment, size: int) -> None:
    """Every byte value arrives on stdin and comes back on both streams, at any size."""
    data = (EVERY_BYTE * (size // 256 + 1))[:size]
    result = env.exec("tee /dev/fd/2", stdin=data, output_limit=4 << 20)
    assert result.stdout == data
    assert result.stderr == data
    assert result.ok


def test_streams_are_apart(env: UploadEnvironment) -> None:
    """stdout, stderr and the exit code arrive apart although the SDK gives one merged text."""
    result = env.exec("echo out; printf 'err\\377' >&2; exit 9")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\xff", 9)


def test_merged_stderr_keeps_the_order(env: UploadEnvironment) -> None:
    """With merge_stderr both streams are one, in the order in which they were written."""
    result = env.exec("echo 1; echo 2 >&2; echo 3", merge_stderr=True)
    assert (result.stdout, result.stderr) == (b"1\n2\n3\n", b"")


def test_output_over_the_limit(env: UploadEnvironment) -> None:
    """Output over the limit keeps both ends, exact totals, and was carried in parts."""
    data = os.urandom(1 << 21)
    result = env.exec("cat", stdin=data, output_limit=1000)
    assert result.stdout == data[:500] + data[-500:]
    assert result.stdout_total == len(data)
    assert result.truncated


def test_output_is_delivered(env: UploadEnvironment) -> None:
    """on_output and iteration deliver all output, once."""
    got: list[tuple[str, bytes]] = []
    env.exec("echo a; echo b >&2", on_output=lambda stream, data: got.append((stream, data)))
    assert got == [("stdout", b"a\n"), ("stderr", b"b\n")]
    assert list(env.start("echo a; echo b >&2")) == got


def test_output_arrives_while_the_command_runs(env: UploadEnvironment, tmp_path: Path) -> None:
    """Output can be read before the command ends, every byte once, across the borders of pieces."""
    process = env.start(
        "cat; echo err >&2; while [ ! -e go ]; do sleep 0.05; done; cat part; exit 3", stdin=EVERY_BYTE * 1000
    )
    (tmp_path / "part").write_bytes(EVERY_BYTE * 700)
    seen = {"stdout": b"", "stderr": b""}
    for stream, data in process:
        seen[stream] += data
        if len(seen["stdout"]) == 256_000 and seen["stderr"]:
            (tmp_path / "go").touch()
    assert seen == {"stdout": EVERY_BYTE * 1700, "stderr": b"err\n"}
    assert process.wait(30).exit_code == 3


def test_on_output_that_raises_ends_the_command(env: UploadEnvironment) -> None:
    """What on_output raises reaches the caller while the command would still run, and kills it."""

    def refuse(stream: str, data: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        env.exec("echo now; sleep 600; touch on", on_output=refuse, timeout=300)


@pytest.mark.parametrize("shell", SHELLS)
def test_unread_stdin_is_not_executed(tmp_path: Path, shell: str) -> None:
    """A payload that looks like shell text, and that the command leaves unread, is not executed by any shell."""
    if shutil.which(shell.partition(" ")[0]) is None:
        pytest.skip(f"{shell} is not installed")
    with opened(tmp_path / "service", shell=shell) as env:
        attack = b"touch injected\nexit 77\n" * 5000
        assert env.exec("true", stdin=attack).exit_code == 0
        assert env.exec("head -c 24 >/dev/null; exit 3", stdin=attack).exit_code == 3
        assert env.exec("cat", stdin=attack).stdout == attack
        assert not (tmp_path / "service" / "injected").exists()


def test_names_arguments_and_variables_of_any_byte(env: UploadEnvironment) -> None:
    """Arguments and variables of any bytes arrive, though the SDK replaces what is not UTF-8."""
    odd = "é\udcff'\"$HOME\\\n"
    raw = os.fsencode(odd)
    assert env.exec(["printf", "%s", odd]).stdout == raw
    assert env.exec('printf %s "$ODD"', env={"ODD": odd}).stdout == raw


@pytest.mark.parametrize("name", ["n", "l", "s", "t", "c", "w", "D", "p"])
def test_variables_of_the_script_do_not_leak(env: UploadEnvironment, name: str) -> None:
    """The transport's own variables neither reach the command nor change one of the caller's."""
    assert env.exec(f'printf %s "${name}"', env={name: "mine"}).stdout == b"mine"
    assert env.exec(f'printf %s "${name}"').stdout == b""
    text = f'printf %s "${name}" #' + "x" * 150_000
    assert env.exec(text, env={name: "mine"}).stdout == b"mine"
    assert not [line for line in env.exec("set").stdout.splitlines() if line.startswith((b"_h_", b"_n", b"_s"))]


def test_long_script(env: UploadEnvironment) -> None:
    """A script longer than an argument may be runs, and its stdin starts at the first byte, also when reopened."""
    script = "cat /dev/stdin; exit 5 #" + "é" * 200_000
    result = env.exec(script, stdin=EVERY_BYTE)
    assert (result.stdout, result.exit_code) == (EVERY_BYTE, 5)


def test_staged_files_are_private_and_unlinked(env: UploadEnvironment, tmp_path: Path) -> None:
    """The command's stdin has no name any more, the directory is 0700, and output files are 0600 in umask 000."""
    result = env.exec("stat -L -c %h /proc/self/fd/0; umask", stdin=b"secret")
    assert result.stdout.split()[0] == b"0"
    process = env.start("echo x; umask 000; echo $$ >pid; while [ ! -e go ]; do sleep 0.05; done", stdin=b"secret")
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (home,) = homes(tmp_path)
    assert home.stat().st_mode & 0o777 == 0o700
    files = {path.name[33:]: path for path in home.glob(process.id + ".*")}
    assert sorted(files) == ["claim", "err", "out", "pid"]
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600, 0o700}
    assert b"secret" not in b"".join(path.read_bytes() for path in home.iterdir() if path.is_file())
    (tmp_path / "go").touch()
    assert process.wait(30).ok


def test_nothing_of_the_command_is_in_a_command_line(env: UploadEnvironment, tmp_path: Path) -> None:
    """Script, arguments, variables and stdin never stand in the text that the SDK gets."""
    env.exec("cat; : canary-script", stdin=b"canary-stdin", env={"A": "canary-env"})
    env.exec(["true", "canary-argument"])
    assert env.sdk.faults.count("execute", "canary") == 0
    assert max(len(subject) for step, subject in env.sdk.faults.calls if step == "execute") < 8192


def test_no_stdin_stages_nothing(env: UploadEnvironment) -> None:
    """Without stdin, and with empty stdin, nothing is staged and the command sees /dev/null."""
    for stdin in (None, b""):
        result = env.exec("readlink /proc/self/fd/0", stdin=stdin)
        assert result.stdout == b"/dev/null\n"
    assert env.sdk.faults.count("upload", ".in") == 0


def test_two_requests_for_a_command(env: UploadEnvironment) -> None:
    """A command costs one upload of its script, one of its stdin, and one request."""
    env.exec("true")
    before = len(env.sdk.faults.calls)
    env.exec("true", stdin=b"x")
    steps = [step for step, subject in env.sdk.faults.calls[before:]]
    assert [step for step in steps if step != "execute"] == ["upload", "upload"]
    assert env.sdk.faults.count("execute", ".sh'") == 2


def test_working_directory_that_is_not_there(env: UploadEnvironment) -> None:
    """A directory that cannot be entered is the builtin error, and nothing runs."""
    with pytest.raises(FileNotFoundError):
        env.exec("touch ran", cwd="/nonexistent")
    assert env.exec("pwd", cwd="/usr").stdout == b"/usr\n"


def test_background_process_does_not_hold_up(env: UploadEnvironment) -> None:
    """A background process that keeps the output open does not hold up the result, and is reported."""
    began = time.monotonic()
    result = env.exec("sleep 600 & echo $! $$; echo done")
    assert time.monotonic() - began < 60
    assert result.held == ("stdout", "stderr")
    pid = result.stdout.split()[0].decode()
    subprocess.run(["kill", pid], check=True)


def test_many_at_once(env: UploadEnvironment) -> None:
    """Commands of several threads neither mix nor wait for each other."""
    barrier = threading.Barrier(8)
    wrong: list[int] = []

    def one(number: int) -> None:
        barrier.wait()
        data = bytes([number]) * 50_000
        if env.exec("cat", stdin=data).stdout != data:
            wrong.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
