"""Faults between the SDK and the service: cut, late, refused, damaged."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    StagingError,
)
from tests.emulators.vercel.client import Emulator
from tests.integration.cloud_tests import FaultTests
from tests.integration.clouds import Open, ident, staged
from tests.waiting import until


class TestFaults(FaultTests):
    """What every staged backend does."""

    upload = "write"
    dispatch = "run"
    download = "read"
    endings = frozenset({"stop", "destroy"})


# -- exactly once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    "fault", [{"kind": "drop_after"}, {"kind": "abort", "value": 400}], ids=["no answer", "cut in the output"]
)
def test_a_command_runs_once_when_its_answer_is_lost(
    faulty: Open, emulator: Emulator, fault: dict[str, Any], reset: bool
) -> None:
    """Wherever the answer to the dispatch is cut, the command runs once and its result arrives."""
    env = faulty()
    emulator.fail("run", reset=reset, **fault)
    result = env.exec("echo ran >>log; cat; exit 5", stdin=b"in" * 500)
    assert (result.exit_code, result.stdout) == (5, b"in" * 500)
    assert env.exec("cat log").text == "ran\n"


@pytest.mark.parametrize("reset", [False, True])
def test_an_answer_that_is_cut_at_its_start_is_looked_into(faulty: Open, emulator: Emulator, reset: bool) -> None:
    """A command of which the SDK knows nothing either gives its result, or was stopped in time and ran nothing."""
    env = faulty()
    emulator.fail("run", "abort", 10, reset=reset)
    try:
        assert env.exec("echo ran >>log; cat", stdin=b"in").stdout == b"in"
        ran = "ran\n"
    except StagingError:
        ran = ""
    assert env.exec("cat log; :").text == ran


@pytest.mark.parametrize("reset", [False, True])
def test_a_long_command_outlives_its_connection(faulty: Open, emulator: Emulator, reset: bool) -> None:
    """A connection that is cut while the command runs costs nothing: it runs once, on, and its result arrives."""
    env = faulty()
    emulator.fail("run", "drop_during", 0.5, reset=reset)
    process = env.start("echo ran >>log; until [ -e go ]; do sleep 0.05; done; cat; exit 7", stdin=b"in")
    until(lambda: sum(emulator.counts(ident(env)).get(kind, 0) for kind in ("logs", "wait", "run")) >= 3)
    assert process.state == "dispatched"
    env.exec(": >go")
    result = process.wait(60)
    assert (result.exit_code, result.stdout) == (7, b"in")
    assert env.exec("cat log").text == "ran\n"


def test_a_dispatch_that_never_arrived_is_said_to_have_run_nothing(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that never arrived is found out by a look, and nothing runs later."""
    env = faulty()
    emulator.fail("run", "drop_before", reset=True)
    with pytest.raises(StagingError, match="nothing ran"):
        env.exec("echo ran >>log")
    assert env.exec("cat log; :").text == ""


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_answered_error_is_not_a_result(faulty: Open, emulator: Emulator, status: int) -> None:
    """An error of the provider for a dispatch is raised, never presented as output, and nothing ran."""
    env = faulty()
    emulator.fail("run", "status", status)
    with pytest.raises(StagingError):
        env.exec("echo ran >>log")
    assert env.exec("cat log; :").text == ""


@pytest.mark.parametrize("endpoint", ["run", "write"])
def test_too_many_requests_are_said_to_be_that(faulty: Open, emulator: Emulator, endpoint: str) -> None:
    """A request over the rate limit ran nothing, may be made again, and is not made again behind the caller's back."""
    env = faulty()
    emulator.forget()
    emulator.fail(endpoint, "status", 429)
    with pytest.raises(BackendUnavailable) as caught:
        env.exec("echo ran >>log", stdin=b"x")
    assert (caught.value.reason, caught.value.retryable) == ("capacity", True)
    assert env.exec("cat log; :").text == ""


def test_under_a_rate_limit_nothing_is_wrong_or_runs_twice(faulty: Open, emulator: Emulator) -> None:
    """With far too few requests allowed each command runs once with its own output, or says that it ran nothing."""
    env = faulty()
    emulator.switch(requests_per_window=6, window_seconds=1.0)
    done: list[int] = []
    for number in range(12):
        try:
            result = env.exec(f"echo {number} >>log; echo {number}")
        except (BackendUnavailable, StagingError):
            continue
        assert result.text == f"{number}\n"
        done.append(number)
    emulator.switch(requests_per_window=0)
    assert env.exec("cat log").text == "".join(f"{number}\n" for number in done)
    assert done and len(done) < 12


@pytest.mark.parametrize("status", [410, 409, 404, 422, 400])
def test_an_answer_that_could_mean_the_end_is_looked_into(faulty: Open, emulator: Emulator, status: int) -> None:
    """A session that still runs is not given up because of one answer; nothing of that command ran."""
    env = faulty()
    emulator.fail("run", "status", status, code="sandbox_stream_closed" if status == 410 else "EMULATED")
    with pytest.raises(StagingError):
        env.exec("echo ran >>log")
    assert env.exec("cat log; :").text == "" and env.alive()


# -- transfers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "abort", "value": 6 << 20},
        {"kind": "abort", "value": 6 << 20, "reset": True},
        {"kind": "drop_before"},
        {"kind": "status", "value": 500},
        {"kind": "throttle", "value": 32 << 20},
    ],
    ids=lambda fault: "-".join(map(str, fault.values())),
)
def test_a_download_that_goes_wrong_is_made_good(faulty: Open, emulator: Emulator, fault: dict[str, Any]) -> None:
    """Downloads that fail half way still arrive whole."""
    env, data = faulty(), bytes(range(256)) * (40 << 10)
    env.files.write_bytes("f", data)
    emulator.forget()
    emulator.fail("read", **fault)
    assert env.files.read_bytes("f") == data
    # What the download does not bring is printed by a second command.
    assert emulator.counts()["write"] == (1 if fault["kind"] == "throttle" else 2)


@pytest.mark.parametrize("fault", ["abort", "status", "drop_after"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_an_upload_in_parts_that_fails_runs_nothing(faulty: Open, emulator: Emulator, fault: str, skip: int) -> None:
    """Whichever part is lost, the command does not run and its parts are erased."""
    env = faulty()
    emulator.fail("write", fault, 500, skip=skip)
    with pytest.raises(StagingError):
        env.exec("echo ran >>log", stdin=iter([b"x" * (1 << 20)] * 9))
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_a_file_that_shrinks_while_it_is_sent_runs_nothing(faulty: Open, tmp_path: Any) -> None:
    """A file with less content than its size said is no input: the command does not run."""
    env, path = faulty(), tmp_path / "shrinks"
    path.write_bytes(bytes(8 << 20))
    with path.open("rb") as file:
        process_file = _Shrinking(file, path)
        with pytest.raises(StagingError, match="nothing ran"):
            env.exec("echo ran >>log", stdin=process_file)  # type: ignore[arg-type]  # all that is asked of a file
    assert env.exec("cat log; :").text == ""
    until(lambda: staged(env) == [])


class _Shrinking:
    """A file that is cut after its first bytes were read."""

    def __init__(self, file: Any, path: Any) -> None:
        self._file = file
        self._path = path
        self.fileno, self.tell = file.fileno, file.tell

    def read(self, size: int) -> bytes:
        """The next bytes."""
        data: bytes = self._file.read(size)
        with self._path.open("r+b") as cut:
            cut.truncate(1 << 20)
        return data
