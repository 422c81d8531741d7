"""Faults between the SDK and the service: cancelled, cut, sent twice, refused, gone."""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    InvalidArgument,
    Keeper,
    StagingError,
    reap,
)
from hermes_env_daytona import DaytonaEnvironment
from tests.emulators.daytona.client import Emulator
from tests.emulators.waiting import until
from tests.integration.clouds import Open

SHELLS = ["zsh", "bash", "dash"]


def ident(env: BaseEnvironment) -> str:
    """Id of the sandbox of an environment."""
    return env.ref.partition("://")[2]


def staged(env: BaseEnvironment) -> list[str]:
    """Names of the command files in the client's private directory."""
    assert isinstance(env, DaytonaEnvironment)
    kept = (".claim", "/lease")
    return sorted(name for name in glob.glob(f"{env._area.home}/*") if not name.endswith(kept))


def pids(emulator: Emulator, env: BaseEnvironment) -> list[int]:
    """Processes of the sandbox."""
    found: list[int] = emulator.sandboxes()[ident(env)]["pids"]
    return found


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


def test_an_sdk_error_never_stops_the_sandbox(faulty: Open, emulator: Emulator) -> None:
    """After failed uploads and dispatches the sandbox is still started, and a running command still runs."""
    env = faulty()
    running = env.start("until [ -e go ]; do sleep 0.05; done; echo done")
    until(lambda: running.state == "dispatched")
    for endpoint, kind, value in (("upload", "status", 500), ("upload", "abort", 100), ("execute", "status", 500)):
        emulator.fail(endpoint, kind, value)
        with pytest.raises(StagingError):
            env.exec("true", stdin=b"x" * 1000)
    env.exec(": >go")
    assert running.wait(60).text == "done\n"
    assert "change" not in emulator.counts(ident(env)) and "delete" not in emulator.counts(ident(env))


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


def test_a_file_that_grows_while_it_is_fetched(faulty: Open, emulator: Emulator) -> None:
    """Output to which a background child still adds arrives as it was when the command ended."""
    env = faulty()
    emulator.fail("download", "hold_before")
    process = env.start(
        "dd if=/dev/zero bs=65536 count=200 2>/dev/null; (until [ -e go ]; do sleep 0.02; done; echo x) &"
    )
    emulator.wait_held("download")
    env.exec(": >go")
    emulator.release()
    result = process.wait(60)
    assert result.stdout == bytes(200 << 16) and result.held == ("stdout", "stderr")


# -- cancellation -------------------------------------------------------------------------------------------------


def test_cancelled_during_the_upload_nothing_is_dispatched(faulty: Open, emulator: Emulator) -> None:
    """A command that is cancelled while its stdin is uploaded is never dispatched, and its files are erased."""
    env = faulty()
    emulator.forget()
    emulator.fail("upload", "hold_inside", 100_000)
    process = env.start("echo ran >>log", stdin=bytes(8 << 20))
    emulator.wait_held("upload")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert process.state == "cancelled" and "execute" not in emulator.counts(ident(env))
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_an_upload_that_arrives_late_is_erased(faulty: Open, emulator: Emulator) -> None:
    """A request that was held when its command was cancelled may still write the file: it does not stay."""
    env = faulty()
    emulator.fail("upload", "hold_before")
    process = env.start("echo ran >>log", stdin=b"secret" * 1000)
    emulator.wait_held("upload")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    emulator.heal()
    until(lambda: emulator.counts(ident(env)).get("remove", 0) >= 1)
    until(lambda: staged(env) == [])


def test_cancelled_while_the_dispatch_is_on_its_way_it_never_runs(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that arrives after the cancellation finds the claim taken."""
    env = faulty()
    emulator.fail("execute", "hold_before")
    process = env.start("echo ran >>log", stdin=b"x")
    emulator.wait_held("execute")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    emulator.release()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


@pytest.mark.parametrize("script", ["sleep 600", "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"])
def test_cancelled_while_it_runs_the_tree_is_gone(faulty: Open, emulator: Emulator, script: str) -> None:
    """A killed command leaves no process and no file, and the sandbox is not stopped."""
    env = faulty()
    process = env.start(f": >up; {script}", stdin=b"secret" * 1000)
    until(lambda: env.exec("[ -e up ]").ok)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert env.exec("echo on").text == "on\n"
    assert "change" not in emulator.counts(ident(env))


def test_cancelled_while_the_answer_is_on_its_way(faulty: Open, emulator: Emulator) -> None:
    """A command that had ended when it was cancelled is over within seconds, whatever its lost answer said."""
    env = faulty()
    emulator.fail("execute", "hold_after")
    process = env.start("echo ran >>log")
    emulator.wait_held("execute")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    emulator.release()
    assert env.exec("cat log").text == "ran\n"


def test_a_deadline_during_a_stalled_upload(faulty: Open, emulator: Emulator) -> None:
    """The deadline of a command bounds the upload, too, and nothing is dispatched."""
    env = faulty()
    emulator.fail("upload", "hold_before")
    begin = time.monotonic()
    with pytest.raises(CommandTimeout):
        env.exec("true", stdin=b"x", timeout=0.5)
    assert time.monotonic() - begin < 20


def test_closing_ends_what_runs(faulty: Open, emulator: Emulator) -> None:
    """Closing kills running commands and deletes the sandbox; nothing of it is left."""
    env = faulty()
    name = ident(env)
    process = env.start("sleep 600")
    until(lambda: process.state == "dispatched")
    env.close()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert name not in emulator.sandboxes()


# -- creation and end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "status", "value": 401}, BackendUnavailable),
        ({"kind": "status", "value": 403}, BackendUnavailable),
        ({"kind": "status", "value": 404}, BackendUnavailable),
        ({"kind": "status", "value": 422}, InvalidArgument),
        ({"kind": "status", "value": 429}, BackendUnavailable),
        ({"kind": "drop_after", "reset": True}, BackendUnavailable),
    ],
    ids=lambda value: str(value.get("value", value["kind"])) if isinstance(value, dict) else "",
)
def test_a_failed_creation_leaves_nothing(
    faulty: Open, emulator: Emulator, fault: dict[str, Any], error: type[Exception]
) -> None:
    """A creation that fails, also one whose answer was lost, raises one typed error and leaves no sandbox."""
    before = set(emulator.sandboxes())
    emulator.fail("create", **fault)
    with pytest.raises(error):
        faulty()
    assert set(emulator.sandboxes()) == before


def test_a_sandbox_that_starts_too_slowly_is_deleted(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that is not started within the limit is deleted, not leaked."""
    before = set(emulator.sandboxes())
    emulator.switch(start_seconds=600.0)
    with pytest.raises(BackendUnavailable) as caught:
        faulty(open_timeout=0.5)
    emulator.switch(start_seconds=0.0)
    assert caught.value.reason == "unreachable"
    assert set(emulator.sandboxes()) == before


def test_a_stopped_sandbox_is_gone_until_it_is_attached_to(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that the provider stopped raises, and attaching starts it again with its files."""
    from hermes_env import attach

    env = faulty()
    env.files.write_bytes("f", b"kept")
    ref = env.ref
    access: dict[str, Any] = {"api_key": emulator.key, "api_url": emulator.api_url}
    emulator.vanish(ident(env), "stopped")
    assert not env.alive()
    with pytest.raises(EnvironmentGone, match="attach"):
        env.exec("true")
    with attach(ref, **access) as again:
        assert again.files.read_bytes("f") == b"kept"


def test_closing_a_vanished_sandbox_is_quiet(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that is gone already closes without an error."""
    env = faulty()
    emulator.vanish(ident(env))
    assert not env.alive()
    env.close()


def test_a_running_command_keeps_its_sandbox_awake(emulator: Emulator, faulty: Open) -> None:
    """While a command runs, activity is reported more often than the idle limit; afterwards no longer."""
    env = faulty()
    assert isinstance(env, DaytonaEnvironment) and env._keeper is not None
    assert env._keeper._pause() == 300.0
    env._keeper.stop()
    env._keeper = Keeper(lambda: env._box.refresh_activity(30.0), lambda: 0.05)
    process = env.start("until [ -e go ]; do sleep 0.05; done")
    until(lambda: emulator.counts(ident(env)).get("activity", 0) >= 2)
    env.exec(": >go")
    process.wait(60)
    until(lambda: env._keeper is not None and not env._keeper.waiting)


def test_only_sandboxes_of_dead_clients_are_reaped(faulty: Open, emulator: Emulator) -> None:
    """The reaper deletes what a killed client left, and nothing of a living one or of other people."""
    import subprocess
    import sys

    mine = faulty()
    program = (
        "import os\nfrom hermes_env import open_environment\n"
        "print(open_environment('daytona').ref, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **emulator.environ}, stdout=-1, check=False
    )
    left = child.stdout.decode().strip().partition("://")[2]
    assert left in emulator.sandboxes()
    assert reap("daytona", api_key=emulator.key, api_url=emulator.api_url) == [left]
    assert left not in emulator.sandboxes() and ident(mine) in emulator.sandboxes()


def test_many_cancellations_leave_nothing(faulty: Open, emulator: Emulator) -> None:
    """Commands cancelled at any moment leave neither files nor processes."""
    env = faulty()

    def one(delay: float) -> None:
        process = env.start("sleep 600", stdin=b"secret" * 5000)
        time.sleep(delay)
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(60)

    threads = [threading.Thread(target=one, args=(index * 0.01,)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
