"""What a staged environment carries: bytes both ways, privately, once, and without touching other clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_env import (
    Capabilities,
    CommandCancelled,
    OutcomeUnknown,
    PayloadTooLarge,
    StagingError,
    Unsupported,
    open_environment,
)
from tests.backends.faults import SdkError
from tests.backends.uploads import UploadEnvironment

BACKEND = "tests.backends.uploads:UploadEnvironment"
EVERY_BYTE = bytes(range(256))
SHELLS = ("bash", "bash --posix", "dash", "busybox ash", "mksh", "zsh", "yash")
TOOLS = (
    "base64",
    "od",
    "rm",
    "mkdir",
    "mv",
    "wc",
    "ls",
    "date",
    "head",
    "tail",
    "dd",
    "sleep",
    "cat",
    "grep",
    "setsid",
)


def opened(root: Path, **options: Any) -> UploadEnvironment:
    """An environment with options of the test."""
    root.mkdir(exist_ok=True)
    env = open_environment(BACKEND, root=str(root), cwd=str(root), **options)
    assert isinstance(env, UploadEnvironment)
    return env


def homes(root: Path) -> list[Path]:
    """Private directories of clients of one service."""
    return sorted((root / "tmp").glob(".hermes-env.*"))


def alive(pid: str) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


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


@pytest.mark.parametrize("damage", ["gone", "cut", "directory"])
def test_damaged_stdin_runs_nothing(env: UploadEnvironment, tmp_path: Path, damage: str) -> None:
    """When the staged stdin is gone, cut, or no file at dispatch, the command does not run."""
    fault = env.sdk.faults.arm("execute", "delay", match=".sh'")
    process = env.start("touch ran", stdin=b"abc")
    assert fault.reached.wait(30)
    (staged,) = homes(tmp_path)[0].glob("*.in")
    if damage == "cut":
        staged.write_bytes(b"ab")
    else:
        staged.unlink()
    if damage == "directory":
        staged.mkdir()
    fault.gate.set()
    with pytest.raises(StagingError):
        process.wait(30)
    assert not (tmp_path / "ran").exists()


def tools(folder: Path, *, without: tuple[str, ...]) -> str:
    """A PATH with the tools of a staged environment but some."""
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None and name not in without:
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.parametrize(
    "without", [("base64",), ("wc",), ("dd",), ("head", "tail"), ("date",), ("setsid",), ("grep",), ("sleep",)]
)
def test_missing_tools_are_replaced(tmp_path: Path, without: tuple[str, ...]) -> None:
    """Without one of the tools that are not always there, output is exact all the same."""
    path = tools(tmp_path / "bin", without=without)
    with opened(tmp_path / "service", path=path) as env:
        data = EVERY_BYTE * 1200
        result = env.exec("cat; exit 3", stdin=data)
        assert (result.stdout, result.exit_code) == (data, 3)


@pytest.mark.parametrize("without", [("base64", "od"), ("rm",), ("mkdir",)])
def test_what_cannot_work_is_refused_by_name(tmp_path: Path, without: tuple[str, ...]) -> None:
    """An environment that lacks what nothing replaces is refused when it is opened, by the name of the tool."""
    path = tools(tmp_path / "bin", without=without)
    with pytest.raises(Unsupported, match=without[0]):
        opened(tmp_path / "service", path=path)


def test_open_sweeps_expired_leases_only(tmp_path: Path) -> None:
    """Opening removes directories of clients that are gone, and none whose lease is fresh or whose command runs."""
    folder = tmp_path / "service" / "tmp"
    folder.mkdir(parents=True)
    now = int(time.time())
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        for name, lease in (("old", now - 3700), ("fresh", now - 3500), ("busy", now - 9999), ("torn", "")):
            home = folder / f".hermes-env.{name}"
            home.mkdir(mode=0o700)
            (home / "lease").write_text(f"{lease}\n")
        (folder / ".hermes-env.busy" / "x.pid").write_text(f"{sleeper.pid}\n")
        with opened(tmp_path / "service"):
            left = {path.name.removeprefix(".hermes-env.") for path in homes(tmp_path / "service")}
            assert {"fresh", "busy", "torn"} < left
            assert "old" not in left
    finally:
        sleeper.kill()
        sleeper.wait()
    assert {path.name for path in homes(tmp_path / "service")} == {
        f".hermes-env.{name}" for name in ("fresh", "busy", "torn")
    }


def test_two_clients_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two clients of one service run, are closed and opened again without losing a byte of each other."""
    with opened(tmp_path / "service") as first:
        process = first.start("cat; while [ ! -e go ]; do sleep 0.05; done; echo end", stdin=EVERY_BYTE)
        with opened(tmp_path / "service") as second:
            assert second.exec("cat", stdin=b"two").stdout == b"two"
        with opened(tmp_path / "service") as third:
            assert third.exec("touch go").ok
        assert process.wait(30).stdout == EVERY_BYTE + b"end\n"
    assert homes(tmp_path / "service") == []


def test_a_lost_directory_is_named(env: UploadEnvironment, tmp_path: Path) -> None:
    """When an upload made a directory in place of the lost private one, nothing runs, and the next command works."""
    (home,) = homes(tmp_path)
    shutil.rmtree(home)
    with pytest.raises(StagingError):
        env.exec("touch ran", stdin=b"secret")
    assert not (tmp_path / "ran").exists()
    assert env.exec("cat", stdin=b"next").stdout == b"next"
    assert home.stat().st_mode & 0o777 == 0o700


def test_time_limit_of_the_service(tmp_path: Path) -> None:
    """When the service itself ends a command, its tree is ended, what it wrote is found, and the outcome is unknown."""
    with opened(tmp_path / "service", time_limit=2.0) as env:
        with pytest.raises(OutcomeUnknown) as caught:
            env.exec("echo before; echo $$ >pid; exec sleep 600")
        assert caught.value.result.stdout == b"before\n"
        pid = (tmp_path / "service" / "pid").read_text().strip()
        assert not alive(pid)


def test_limits_are_refused_before_anything_runs(tmp_path: Path) -> None:
    """A payload over a declared limit is refused, by its size or when an iterable turns out to be too long."""
    with opened(tmp_path / "service") as env:
        env.capabilities = Capabilities(exact_stdout=True, max_stdin_bytes=1000)
        with pytest.raises(PayloadTooLarge):
            env.exec("touch ran", stdin=bytes(1001))

        def chunks() -> Iterator[bytes]:
            for _ in range(11):
                yield bytes(100)

        with pytest.raises(PayloadTooLarge):
            env.exec("touch ran", stdin=chunks())
        assert env.exec("wc -c", stdin=bytes(1000)).stdout.strip() == b"1000"
        assert not (tmp_path / "service" / "ran").exists()


def test_what_is_not_declared_is_unsupported(env: UploadEnvironment) -> None:
    """Live stdin and other users are refused, not imitated."""
    with pytest.raises(Unsupported):
        env.start("cat", live_stdin=True)
    with pytest.raises(Unsupported):
        env.exec("true", user="nobody")


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


def test_files_go_with_the_environment(tmp_path: Path) -> None:
    """Output files of ended commands are erased soon, and nothing is left after closing, killed commands included."""
    with opened(tmp_path / "service") as env:
        env.exec("cat", stdin=b"canary-output")
        (home,) = homes(tmp_path / "service")
        deadline = time.monotonic() + 30
        while any(path.suffix == ".out" for path in home.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process = env.start("sleep 600")
    with pytest.raises(CommandCancelled):
        process.wait(30)
    assert homes(tmp_path / "service") == []


def test_a_service_that_is_down(tmp_path: Path) -> None:
    """An SDK error while opening is one clear error of ours, with the SDK's as its cause."""

    class Down(UploadEnvironment):
        def _run(self, script: str, launch: object) -> str:
            raise SdkError("503")

    from hermes_env import BackendUnavailable

    env = Down(UploadEnvironment.Options(root=str(tmp_path)))
    with pytest.raises(BackendUnavailable):
        env.open()


def test_the_length_of_large_stdin_reaches_the_backend(tmp_path: Path) -> None:
    """Bytes and files that are too large to go with the script are staged with their length, iterables without."""
    sizes: list[int | None] = []

    class Sized(UploadEnvironment):
        def _stage(self, path: str, chunks: Iterator[bytes], size: int | None = None) -> None:
            if path.endswith(".in"):
                sizes.append(size)
            super()._stage(path, chunks)

        def _stage_sized(self, path: str, chunks: Iterator[bytes], size: int) -> None:
            self._stage(path, chunks, size)

    data = EVERY_BYTE * 8192
    (tmp_path / "file").write_bytes(data)
    with Sized(Sized.Options(root=str(tmp_path)), cwd=str(tmp_path)).open() as env:
        assert env.exec("cat", stdin=data).stdout == data
        with open(tmp_path / "file", "rb") as file:
            file.seek(100)
            assert env.exec("cat", stdin=file).stdout == data[100:]
        with open("/proc/self/status", "rb") as pseudo:
            assert env.exec("cat", stdin=pseudo).stdout.startswith(b"Name:")
        assert env.exec("cat", stdin=iter([data])).stdout == data
    assert sizes == [len(data), len(data) - 100, None, None]


@pytest.mark.parametrize(
    ("content", "alive", "wanted"),
    [
        ("7 .", False, ("status", 7, "")),
        ("7 stdout .", False, ("status", 7, "")),
        ("short .", False, ("status", None, "short")),
        ("7", True, ("running", None, "")),
        ("7", False, ("status", None, "dead")),
        ("", True, ("running", None, "")),
        (None, False, ("status", None, "dead")),
    ],
)
def test_an_exit_code_counts_when_it_is_complete(
    env: UploadEnvironment, tmp_path: Path, content: str | None, alive: bool, wanted: tuple[str, int | None, str]
) -> None:
    """What a script has begun to write, or could not write whole on a full disk, is not taken for its exit code."""
    (home,) = homes(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (home / "x.claim").mkdir()
    (home / "x.pid").write_text(f"{os.getpid() if alive else gone.pid}\n")
    if content is not None:
        (home / "x.rc").write_text(content)
    report = env._area.look("x", 30.0)
    assert report is not None
    assert (report.word, report.status, report.reason) == wanted


def test_the_lease_is_renewed_before_it_ends(
    env: UploadEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question more, when the last was twenty minutes ago, also when this machine slept meanwhile."""
    (home,) = homes(tmp_path)
    (home / "lease").write_text("1\n")
    env.exec("true")
    assert (home / "lease").read_text() == "1\n"
    later = time.clock_gettime(time.CLOCK_BOOTTIME) + 1201
    monkeypatch.setattr(time, "clock_gettime", lambda clock: later if clock == time.CLOCK_BOOTTIME else 0.0)
    before = env.sdk.faults.count("execute")
    env.exec("true")
    env.exec("true")
    assert env.sdk.faults.count("execute") == before + 3
    assert abs(int((home / "lease").read_text()) - time.time()) < 600
