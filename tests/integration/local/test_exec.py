"""Commands to their end: streams, exit codes, arguments, directories, limits."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest

from hermes_env import (
    BaseEnvironment,
    CommandFailed,
    CommandTimeout,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    PayloadTooLarge,
    StdinLike,
    Unsupported,
    open_environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVERY_BYTE = bytes(range(256)) + bytes(range(255, -1, -1))


def test_streams_and_exit_code_arrive_apart(env: BaseEnvironment) -> None:
    """stdout, stderr and the exit code are the command's own."""
    result = env.exec("printf out; printf err >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out", b"err", 7)
    assert result.state == "finished" and not result.ok


@pytest.mark.parametrize("size", [0, 1, 4096, 65_537, 131_072, 163_840, (1 << 20) + 1, 5 << 20])
def test_stdin_of_any_size_arrives(env: BaseEnvironment, size: int) -> None:
    """Every byte of stdin arrives, judged by a digest that sha256sum makes."""
    data = (EVERY_BYTE * (size // 512 + 1))[:size]
    result = env.exec("sha256sum", stdin=data)
    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("form", ["file", "iterable", "bytearray", "pipe"])
def test_stdin_may_be_streamed(env: BaseEnvironment, form: str) -> None:
    """Binary files, pipes, iterables and buffers are read to their end."""
    data = os.urandom(2_500_000)
    reader, writer = os.pipe()
    feeder = threading.Thread(target=_feed, args=(writer, data[:60_000]))
    feeder.start()
    with io.FileIO(reader) as pipe:
        sources: dict[str, StdinLike] = {
            "file": io.BytesIO(data),
            "iterable": (data[start : start + 100_003] for start in range(0, len(data), 100_003)),
            "bytearray": bytearray(data),
            "pipe": cast("BinaryIO", pipe),
        }
        expected = data[:60_000] if form == "pipe" else data
        result = env.exec("sha256sum", stdin=sources[form])
    feeder.join()
    assert result.stdout.split()[0].decode() == hashlib.sha256(expected).hexdigest()


def _feed(fd: int, data: bytes) -> None:
    with io.FileIO(fd, "w") as file:
        file.write(data)


def test_absent_and_empty_stdin_are_end_of_file(env: BaseEnvironment) -> None:
    """A command that reads stdin ends at once when there is none."""
    assert env.exec("cat; echo end").stdout == b"end\n"
    assert env.exec("cat; echo end", stdin=b"").stdout == b"end\n"
    assert env.exec("cat; echo end", stdin=iter([])).stdout == b"end\n"


def test_unread_stdin_is_no_failure(env: BaseEnvironment) -> None:
    """A command may leave its stdin unread; its exit code stands."""
    assert env.exec("exit 5", stdin=b"x" * (3 << 20)).exit_code == 5


def test_both_streams_and_unread_stdin_do_not_deadlock(env: BaseEnvironment) -> None:
    """3 MiB on each stream while 3 MiB of stdin wait."""
    script = "head -c 3145728 /dev/zero; head -c 3145728 /dev/zero >&2; cat | wc -c"
    result = env.exec(script, stdin=b"x" * (3 << 20), timeout=60)
    assert result.stderr == bytes(3 << 20)
    assert result.stdout == bytes(3 << 20) + b"3145728\n"


def test_argv_is_literal(env: BaseEnvironment) -> None:
    """Boundaries and bytes of arguments are kept; nothing is expanded."""
    words = ["a b", "", "$HOME", "*", "'", '"', "\\", "l1\nl2\n", "é", os.fsdecode(bytes(range(1, 256)))]
    result = env.exec(["printf", r"%s\0", *words])
    assert result.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)


def test_env_values_are_exact(env: BaseEnvironment) -> None:
    """Values of any bytes, also with newlines and trailing ones, arrive and are never run."""
    value = os.fsdecode(bytes(range(1, 256))) + "\ntouch /tmp/pwned\n\n"
    result = env.exec('printf %s "$VALUE"', env={"VALUE": value})
    assert result.stdout == os.fsencode(value)


def test_large_scripts_run(env: BaseEnvironment) -> None:
    """A script over the size of one argument runs, with its stdin."""
    script = "true\n" * 60_000 + "cat; exit 9"
    result = env.exec(script, stdin=b"\0payload")
    assert (result.stdout, result.exit_code) == (b"\0payload", 9)


@pytest.mark.parametrize("pad", ["", "true\n" * 60_000])
def test_scripts_see_no_variables_of_ours(env: BaseEnvironment, pad: str) -> None:
    """A script starts with the variables it was given, however it travelled."""
    result = env.exec(f'{pad}set | grep -c -E "^(n|s|t|c|l|g|b|w)="; echo "$#$0"')
    assert result.stdout == b"0\n0sh\n"


def test_large_scripts_stream_stdin(env: BaseEnvironment) -> None:
    """The same when the length of stdin is not known."""
    result = env.exec("true\n" * 60_000 + "cat", stdin=iter([b"\0pay", b"load"]))
    assert result.stdout == b"\0payload"


def test_program_not_found_is_127(env: BaseEnvironment) -> None:
    """A missing program is an ordinary result with its name on stderr."""
    result = env.exec(["no-such-program"])
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr


def test_not_executable_is_126(env: BaseEnvironment, tmp_path: Path) -> None:
    """A file without execute permission is 126."""
    (tmp_path / "plain").write_text("x")
    assert env.exec([str(tmp_path / "plain")]).exit_code == 126


def test_signal_death_is_128_plus_n(env: BaseEnvironment) -> None:
    """A command that a signal ends has 128 + n."""
    assert env.exec("kill -9 $$").exit_code == 137
    assert env.exec("kill -15 $$").exit_code == 143


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_cwd_that_cannot_be_entered(env: BaseEnvironment, tmp_path: Path, kind: str, limit: int) -> None:
    """The builtin error names argument and path; nothing ran; the environment stays usable."""
    target = tmp_path / kind
    if kind == "file":
        target.write_text("")
    error = FileNotFoundError if kind == "missing" else NotADirectoryError
    with pytest.raises(error, match="cwd") as caught:
        env.exec(f"touch {tmp_path}/ran", cwd=str(target), output_limit=limit)
    assert caught.value.filename == str(target)
    assert not (tmp_path / "ran").exists()
    assert env.exec("true").ok


def test_cwd_is_literal(env: BaseEnvironment, tmp_path: Path) -> None:
    """Directories with any name are entered; `~`, `$` and CDPATH mean nothing."""
    odd = tmp_path / os.fsdecode(b"-d $HOME ~ \xff\n*")
    odd.mkdir()
    assert env.exec("pwd", cwd=str(odd)).stdout == os.fsencode(odd) + b"\n"
    assert env.exec("pwd", cwd=str(tmp_path), env={"CDPATH": "/usr"}).stdout == os.fsencode(tmp_path) + b"\n"


def test_relative_cwd_starts_at_the_environments(tmp_path: Path) -> None:
    """A relative directory is joined to the environment's, `..` included."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with open_environment("local", cwd=str(tmp_path / "a")) as env:
        assert env.exec("pwd", cwd="b").text == f"{tmp_path}/a/b\n"
        assert env.exec("pwd -P", cwd="..").text == f"{tmp_path}\n"
        assert env.exec("pwd").text == f"{tmp_path}/a\n"


def test_merged_streams_keep_their_order(env: BaseEnvironment) -> None:
    """With merge_stderr both streams are stdout, in the order of writing."""
    script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"
    result = env.exec(script, merge_stderr=True)
    assert result.stdout == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 6))
    assert result.stderr == b""
    assert env.exec(["sh", "-c", script], merge_stderr=True).stdout == result.stdout


def test_output_limit_keeps_both_ends(env: BaseEnvironment) -> None:
    """Over the limit, the first and the last half are kept, and the totals are true."""
    result = env.exec("seq 1 200000", output_limit=1000)
    whole = b"".join(b"%d\n" % number for number in range(1, 200_001))
    assert result.truncated and result.stdout_total == len(whole)
    assert result.stdout == whole[:500] + whole[-500:]


def test_on_output_sees_every_chunk(env: BaseEnvironment) -> None:
    """The callback gets all bytes of both streams, each stream in order."""
    seen = {"stdout": b"", "stderr": b""}

    def take(stream: str, data: bytes) -> None:
        seen[stream] += data

    env.exec("seq 1 50000; seq 1 50000 >&2", on_output=take, output_limit=0)
    assert seen["stdout"] == seen["stderr"] == b"".join(b"%d\n" % number for number in range(1, 50_001))


def test_on_output_that_raises_kills(env: BaseEnvironment, tmp_path: Path) -> None:
    """What the callback raises comes out of exec, and the command is gone."""

    def refuse(stream: str, data: bytes) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        env.exec(f"echo x; sleep 60; touch {tmp_path}/ran", on_output=refuse)
    assert not (tmp_path / "ran").exists()


def test_stdin_that_raises_kills(env: BaseEnvironment, tmp_path: Path) -> None:
    """What the caller's iterable raises comes out of exec; the command never sees a false end of its input."""

    def broken() -> Iterator[bytes]:
        yield b"first"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        env.exec(f"cat >/dev/null; touch {tmp_path}/took-a-part-for-all", stdin=broken())
    assert not (tmp_path / "took-a-part-for-all").exists()


def test_check_raises_with_the_result(env: BaseEnvironment) -> None:
    """check=True turns a non-zero exit into an error that carries the result and no command text."""
    with pytest.raises(CommandFailed) as caught:
        env.exec("echo SECRET; exit 3", check=True)
    assert caught.value.result.exit_code == 3
    assert "SECRET" not in str(caught.value)


def test_background_child_does_not_hang_exec(env: BaseEnvironment) -> None:
    """A child that holds the streams is left alone; exec returns with what the command wrote, and says so."""
    result = env.exec("sleep 30 & echo $!", timeout=20)
    os.kill(int(result.stdout), 9)
    assert result.duration < 10
    assert result.held == ("stdout", "stderr")


def test_child_never_sees_the_callers_stdin() -> None:
    """With something waiting on the caller's fd 0, a command still sees end-of-file."""
    program = (
        "import hermes_env, sys\n"
        "with hermes_env.open_environment('local') as env: sys.stdout.buffer.write(env.exec('cat; echo end').stdout)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"X", capture_output=True, check=True)
    assert done.stdout == b"end\n"


def test_minimal_environment_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's variables stay with the caller unless asked for."""
    monkeypatch.setenv("CANARY_VARIABLE", "bird")
    with open_environment("local") as env:
        assert b"bird" not in env.exec("env").stdout
        assert env.exec("echo $PATH").ok
    with open_environment("local", inherit_env=True) as env:
        assert b"CANARY_VARIABLE=bird" in env.exec("env").stdout


BAD_CALLS = {
    "NUL in script": ({"cmd": "a\0b"}, "cmd"),
    "NUL in argv": ({"cmd": ["a", "b\0"]}, r"cmd\[1\]"),
    "empty argv": ({"cmd": []}, "cmd"),
    "bytes command": ({"cmd": b"true"}, "cmd"),
    "option as program": ({"cmd": ["-x"]}, r"cmd\[0\]"),
    "huge argument": ({"cmd": ["echo", "x" * 131_072]}, r"cmd\[1\]"),
    "stray surrogate": ({"cmd": "\ud800"}, "cmd"),
    "NUL in cwd": ({"cmd": "true", "cwd": "a\0"}, "cwd"),
    "empty cwd": ({"cmd": "true", "cwd": ""}, "cwd"),
    "env name": ({"cmd": "true", "env": {"a.b": "1"}}, "env"),
    "env value": ({"cmd": "true", "env": {"A": "s3cret\0"}}, "env"),
    "negative timeout": ({"cmd": "true", "timeout": -1}, "timeout"),
    "NaN timeout": ({"cmd": "true", "timeout": float("nan")}, "timeout"),
    "text stdin": ({"cmd": "true", "stdin": "text"}, "stdin"),
    "number stdin": ({"cmd": "true", "stdin": 5}, "stdin"),
    "callback": ({"cmd": "true", "on_output": 5}, "on_output"),
    "env text": ({"cmd": "true", "env": "A=x"}, "env"),
    "negative limit": ({"cmd": "true", "output_limit": -1}, "output_limit"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_arguments_are_refused_before_anything_runs(local: BaseEnvironment, case: str) -> None:
    """A typed error names the argument, shows no secret, and the environment stays usable."""
    call, name = BAD_CALLS[case]
    with pytest.raises(InvalidArgument, match=name) as caught:
        local.exec(**call)  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)
    assert local.exec("true").ok


def test_users_are_refused(local: BaseEnvironment) -> None:
    """A power that is not declared raises Unsupported."""
    with pytest.raises(Unsupported, match="users"):
        local.exec("true", user="nobody")


def test_deadline_of_zero_dispatches_nothing(local: BaseEnvironment, tmp_path: Path) -> None:
    """A deadline that has passed already starts nothing."""
    with pytest.raises(CommandTimeout) as caught:
        local.exec(f"touch {tmp_path}/ran", timeout=0)
    assert caught.value.result.exit_code == -1
    assert not (tmp_path / "ran").exists()


def test_closed_environment_refuses(local: BaseEnvironment) -> None:
    """After close every call says that the environment is gone; close is idempotent."""
    local.close()
    local.close()
    assert not local.alive()
    with pytest.raises(EnvironmentGone):
        local.exec("true")


def test_no_descriptor_is_left(local: BaseEnvironment) -> None:
    """Commands of every kind give all their descriptors back."""
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(20):
        local.exec("cat", stdin=b"x" * 100_000)
        local.exec("cat", stdin=iter([b"x" * 100_000]))
        local.exec("exit 3", stdin=b"x" * 2_000_000)
    with pytest.raises(CommandTimeout):
        local.exec("sleep 60", timeout=0.05)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_non_blocking_source_is_read_to_its_end(env: BaseEnvironment) -> None:
    """A non-blocking pipe without data now has not ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"early ")

    def later() -> None:
        time.sleep(0.2)
        _feed(writer, b"late")

    feeder = threading.Thread(target=later)
    feeder.start()
    with io.FileIO(reader) as pipe:
        assert env.exec("cat", stdin=cast("BinaryIO", pipe)).stdout == b"early late"
    feeder.join()


def test_buffers_with_gaps_are_sent(env: BaseEnvironment) -> None:
    """Every other byte of a buffer is a buffer, too."""
    assert env.exec("cat", stdin=memoryview(b"a-b-c-")[::2]).stdout == b"abc"


@pytest.mark.parametrize("value", ["x" * 200_000, "y" * 100_000])
def test_variables_that_are_too_large_are_named(local: BaseEnvironment, value: str) -> None:
    """What the system does not take is refused by name, without the value."""
    variables = {f"VARIABLE{number}": value for number in range(40)}
    with pytest.raises(PayloadTooLarge, match="env") as caught:
        local.exec("true", env=variables)
    assert value[:100] not in str(caught.value)
    assert local.exec("true").ok


def test_errors_cross_process_borders(local: BaseEnvironment, tmp_path: Path) -> None:
    """Every error can be pickled, with its result and attributes."""
    errors: list[HermesEnvError] = []
    calls: tuple[dict[str, Any], ...] = (
        {"cmd": "exit 3", "check": True},
        {"cmd": "sleep 60", "timeout": 0.1},
        {"cmd": "true", "cwd": ""},
    )
    for call in calls:
        with pytest.raises(HermesEnvError) as caught:
            local.exec(**call)
        errors.append(caught.value)
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and str(copy) == str(error)
        assert vars(copy) == vars(error)


def test_an_absolute_directory_needs_none_of_the_callers(tmp_path: Path) -> None:
    """Where the caller's directory was removed, an absolute one opens, and a relative one is refused by name."""
    program = (
        "import hermes_env, os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])\n"
        "with hermes_env.open_environment('local', cwd='/') as env: print(env.exec('pwd').text, end='')\n"
        "try: hermes_env.open_environment('local', cwd='sub')\n"
        "except hermes_env.InvalidArgument as error: print(error.argument)\n"
    )
    (tmp_path / "gone").mkdir()
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "gone")], capture_output=True, check=True)
    assert done.stdout == b"/\ncwd\n"
