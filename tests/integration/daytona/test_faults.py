"""Faults between the SDK and the service: cut, sent twice, refused, damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import (
    CommandTimeout,
    EnvironmentGone,
    StagingError,
)
from hermes_env_daytona import DaytonaEnvironment
from tests.emulators.daytona.client import Emulator
from tests.integration.cloud_tests import FaultTests
from tests.integration.clouds import Open, ident
from tests.waiting import until

SHELLS = ["zsh", "bash", "dash"]


class TestFaults(FaultTests):
    """What every staged backend does."""

    upload = "upload"
    dispatch = "execute"
    download = "download"
    endings = frozenset({"change", "delete"})


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[str]:
    """Each shell that the service may give command text to."""
    emulator.switch(shell=request.param)
    yield request.param
    emulator.switch(shell="zsh")


def test_every_shell_carries_every_byte(faulty: Open, shell: str) -> None:
    """Bytes, script, variables and streams are the same under each shell of the service."""
    env, data = faulty(), bytes(range(256)) * 700
    result = env.exec('printf %s "$V" >&2; cat; exit 9', stdin=data, env={"V": "a\n'b\udcff"})
    assert (result.exit_code, result.stdout, result.stderr) == (9, data, b"a\n'b\xff")


@pytest.mark.parametrize("errors", ["coded", "bare"])
def test_every_age_of_daemon_behaves(faulty: Open, emulator: Emulator, errors: str) -> None:
    """Daemons that name their errors and those that answer with an empty body lead to the same results."""
    emulator.switch(errors=errors)
    env = faulty()
    with pytest.raises(FileNotFoundError):
        env.files.read_bytes("none")
    with pytest.raises(CommandTimeout):
        env.exec("sleep 600", timeout=0.4)
    emulator.vanish(ident(env))
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    emulator.switch(errors="coded")


# -- exactly once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "reset"), [("drop_after", False), ("drop_after", True), ("replay", False)])
def test_a_command_runs_once_when_its_answer_is_lost(faulty: Open, emulator: Emulator, kind: str, reset: Any) -> None:
    """Whether the SDK or the proxy sends the dispatch again, or nobody does, it runs once and its result arrives."""
    env = faulty()
    emulator.fail("execute", kind, reset=reset)
    result = env.exec("echo ran >>log; cat; exit 5", stdin=b"in")
    assert (result.exit_code, result.stdout) == (5, b"in")
    assert env.exec("cat log").text == "ran\n"


@pytest.mark.parametrize("reset", [False, True])
def test_a_long_command_outlives_its_connection(faulty: Open, emulator: Emulator, reset: Any) -> None:
    """A connection that is cut while the command runs costs nothing: it runs once, on, and its result arrives."""
    env = faulty()
    emulator.fail("execute", "drop_during", 0.5, reset=reset)
    process = env.start("echo ran >>log; until [ -e go ]; do sleep 0.05; done; cat; exit 7", stdin=b"in")
    until(lambda: emulator.counts(ident(env))["execute"] >= 3)
    assert process.state == "dispatched"
    env.exec(": >go")
    result = process.wait(60)
    assert (result.exit_code, result.stdout) == (7, b"in")
    assert env.exec("cat log").text == "ran\n"


def test_a_dispatch_that_never_arrived_is_said_to_have_run_nothing(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that never arrived, however often the SDK sent it, is found out by a look, and nothing runs later."""
    env = faulty()
    emulator.fail("execute", "drop_before", reset=True, times=4)
    with pytest.raises(StagingError, match="nothing ran"):
        env.exec("echo ran >>log")
    assert env.exec("cat log; :").text == ""


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_an_answered_error_is_not_a_result(faulty: Open, emulator: Emulator, status: int) -> None:
    """An error of the provider for a dispatch is raised, never presented as output, and nothing ran."""
    env = faulty()
    emulator.fail("execute", "status", status)
    with pytest.raises(StagingError):
        env.exec("echo ran >>log")
    assert env.exec("cat log; :").text == ""


def test_what_the_pool_closes_is_no_connection_in_use(faulty: Open, emulator: Emulator) -> None:
    """The SDK's pool, which under load closes connections in use, has none of a transfer."""
    env = faulty()
    assert isinstance(env, DaytonaEnvironment)
    emulator.forget()
    emulator.fail("upload", "hold_before")
    process = env.start("echo ran >>log; cat", stdin=b"in")
    emulator.wait_held("upload")
    for connection in env._client._http_client._transport._pool.connections:
        connection.close()  # As another thread does that finds it there, idle a moment ago.
    emulator.release()
    assert process.wait(60).stdout == b"in"
    assert emulator.counts(ident(env))["upload"] == 1
    assert env.exec("cat log").text == "ran\n"


# -- downloads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        None,
        {"kind": "abort", "value": 6 << 20},
        {"kind": "abort", "value": 6 << 20, "reset": True},
        {"kind": "drop_before"},
        {"kind": "status", "value": 500},
        {"kind": "throttle", "value": 32 << 20},
    ],
    ids=lambda fault: "boundary" if fault is None else "-".join(map(str, fault.values())),
)
def test_a_download_that_goes_wrong_is_made_good(
    faulty: Open, emulator: Emulator, fault: dict[str, Any] | None
) -> None:
    """Content that ends a download early, and downloads that fail half way, still arrive whole."""
    env = faulty()
    tricky = b"" if fault else b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n"
    data = bytes(range(256)) * (20 << 10) + tricky + bytes(range(256)) * (20 << 10)
    env.files.write_bytes("f", data)
    emulator.forget()
    if fault is not None:
        emulator.fail("download", **fault)
    assert env.files.read_bytes("f") == data
    throttled = fault is not None and fault["kind"] == "throttle"
    # What the download does not bring is printed by a second command.
    assert emulator.counts()["upload"] == (1 if throttled else 2)
