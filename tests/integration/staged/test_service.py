"""What a staged environment does about its service: missing tools, limits, other clients, what is lost or down."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_env import (
    Capabilities,
    CommandCancelled,
    OutcomeUnknown,
    PayloadTooLarge,
    StagingError,
    Unsupported,
)
from tests.backends.faults import SdkError
from tests.backends.uploads import UploadEnvironment
from tests.integration.staged.services import EVERY_BYTE, homes, opened
from tests.processes import is_dead

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
        (folder / ".hermes-env.torn" / "lease").write_text(f"{now}"[:3])  # As it is read while it is renewed.
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
        assert is_dead(pid)


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
