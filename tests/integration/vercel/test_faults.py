"""Faults between the SDK and the service: cancelled, cut, late, refused, stopped, gone."""

from __future__ import annotations

import glob
import threading
import time
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    OutcomeUnknown,
    StagingError,
)
from hermes_env_vercel import VercelEnvironment
from tests.emulators.vercel.client import Emulator
from tests.emulators.waiting import until
from tests.integration.clouds import Open

OUTSIDE = ("kill", "commands", "extend", "stop", "destroy", "get")
"""Endpoints that no command needs that goes well."""


def name_of(env: BaseEnvironment) -> str:
    """Name of the sandbox of an environment."""
    return env.ref.partition("://")[2]


def staged(env: BaseEnvironment) -> list[str]:
    """Names of the command files in the client's private directory."""
    assert isinstance(env, VercelEnvironment)
    kept = (".claim", "/lease")
    return sorted(name for name in glob.glob(f"{env._area.home}/*") if not name.endswith(kept))


def pids(emulator: Emulator, env: BaseEnvironment) -> list[int]:
    """Processes of the sandbox."""
    found: list[int] = emulator.sandboxes()[name_of(env)]["pids"]
    return found


def cancelled(env: BaseEnvironment, emulator: Emulator, endpoint: str, script: str, **settings: Any) -> None:
    """Start a command, wait until a request of it is held, and cancel it."""
    process = env.start(script, **settings)
    emulator.wait_held(endpoint)
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)


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
    until(lambda: sum(emulator.counts(name_of(env)).get(kind, 0) for kind in ("logs", "wait", "run")) >= 3)
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


def test_an_sdk_error_never_stops_the_sandbox(faulty: Open, emulator: Emulator) -> None:
    """After failed uploads and dispatches the sandbox still runs, and so does a running command."""
    env = faulty()
    running = env.start("until [ -e go ]; do sleep 0.05; done; echo done")
    until(lambda: running.state == "dispatched")
    for endpoint, kind, value in (("write", "status", 500), ("write", "abort", 100), ("run", "status", 500)):
        emulator.fail(endpoint, kind, value)
        with pytest.raises(StagingError):
            env.exec("true", stdin=b"x" * 1000)
    env.exec(": >go")
    assert running.wait(60).text == "done\n"
    assert not {"stop", "destroy"} & emulator.counts(name_of(env)).keys()


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


def test_a_file_that_grows_while_it_is_fetched(faulty: Open, emulator: Emulator) -> None:
    """Output to which a background child still adds arrives as it was when the command ended."""
    env = faulty()
    emulator.fail("read", "hold_before")
    process = env.start(
        "dd if=/dev/zero bs=65536 count=200 2>/dev/null; (until [ -e go ]; do sleep 0.02; done; echo x) &"
    )
    emulator.wait_held("read")
    env.exec(": >go")
    emulator.release()
    result = process.wait(60)
    assert result.stdout == bytes(200 << 16) and result.held == ("stdout", "stderr")


# -- cancellation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False], ids=["one stream", "parts"])
def test_cancelled_during_the_upload_nothing_is_dispatched(faulty: Open, emulator: Emulator, known: bool) -> None:
    """A command that is cancelled while its stdin is uploaded is never dispatched, and its files are erased."""
    env = faulty()
    emulator.forget()
    emulator.fail("write", "hold_inside", 2000)
    data = bytes(range(256)) * (8 << 12)
    cancelled(env, emulator, "write", "echo ran >>log", stdin=data if known else iter([data]))
    assert all(entry.get("command", [""])[-1] == "hermes-env-" for entry in emulator.log() if "command" in entry)
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_an_upload_that_arrives_late_is_erased(faulty: Open, emulator: Emulator) -> None:
    """A request that was held when its command was cancelled may still write the file: it does not stay."""
    env = faulty()
    emulator.fail("write", "hold_before")
    cancelled(env, emulator, "write", "echo ran >>log", stdin=b"secret" * 1000)
    emulator.heal()
    until(lambda: staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_a_dispatch_that_starts_late_never_runs(faulty: Open, emulator: Emulator) -> None:
    """A dispatch that was cancelled before it was answered may start later: it finds the claim taken and runs nothing.

    The service starts it all the same, which is seen in its list of commands.
    """
    env = faulty()
    emulator.fail("run", "hold_before")
    cancelled(env, emulator, "run", "echo ran >>log; sleep 600", stdin=b"x")
    before = len(emulator.sandboxes()[name_of(env)]["commands"])
    emulator.release()
    until(lambda: len(emulator.sandboxes()[name_of(env)]["commands"]) > before)
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert env.exec("cat log; :").text == ""


def test_every_dispatch_starts_late(faulty: Open, emulator: Emulator) -> None:
    """Where the service always starts commands late, one that is cancelled leaves nothing that runs, and others do."""
    env = faulty()
    emulator.switch(dispatch_seconds=1.0)
    process = env.start("sleep 600; echo late >>log")
    until(lambda: process.state == "dispatched")
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert env.exec("echo next").text == "next\n"
    until(lambda: pids(emulator, env) == [])
    emulator.switch(dispatch_seconds=0.0)
    assert env.exec("cat log; :").text == ""
    until(lambda: staged(env) == [])


@pytest.mark.parametrize("scope", ["process", "group"])
@pytest.mark.parametrize("script", ["sleep 600", "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"])
def test_cancelled_while_it_runs_the_tree_is_gone(faulty: Open, emulator: Emulator, script: str, scope: str) -> None:
    """A killed command leaves no process and no file, and the sandbox goes on."""
    emulator.switch(kill_scope=scope)
    env = faulty()
    process = env.start(f": >up; {script}", stdin=b"secret" * 1000)
    until(lambda: env.exec("[ -e up ]").ok)
    emulator.forget()
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])
    assert not set(OUTSIDE) & emulator.counts(name_of(env)).keys()
    assert env.exec("echo on").text == "on\n"


@pytest.mark.parametrize("kind", ["status", "drop_before"])
def test_where_the_kill_script_cannot_run_the_service_kills(faulty: Open, emulator: Emulator, kind: str) -> None:
    """A sandbox that does not run the kill script leaves the command to the service, which finds it by its id."""
    env = faulty()
    process = env.start(": >up; sleep 600")
    until(lambda: env.exec("[ -e up ]").ok)
    emulator.forget()
    emulator.fail("run", kind, 500)
    process.kill()
    with pytest.raises(CommandCancelled) as caught:
        process.wait(60)
    counts = emulator.counts(name_of(env))
    assert counts["commands"] == 1 and counts["kill"] >= 1
    assert caught.value.result.kill_unconfirmed is False
    until(lambda: pids(emulator, env) == [] and staged(env) == [])


def test_a_service_that_does_not_answer_is_not_waited_for(faulty: Open, emulator: Emulator) -> None:
    """A kill whose requests get no answer is over within seconds, is not confirmed, and takes effect late."""
    env = faulty()
    process = env.start(": >up; sleep 600")
    until(lambda: env.exec("[ -e up ]").ok)
    for endpoint in ("run", "commands"):
        emulator.fail(endpoint, "hold_before", times=-1)
    begin = time.monotonic()
    process.kill()
    with pytest.raises((CommandCancelled, OutcomeUnknown)) as caught:
        process.wait(60)
    assert time.monotonic() - begin < 30
    assert caught.value.result.kill_unconfirmed is True
    emulator.heal()
    until(lambda: pids(emulator, env) == [])
    # What late requests made goes with a later command.
    until(lambda: env.exec("true").ok and not any(process._command.id in name for name in staged(env)))


def test_cancelled_while_the_answer_is_on_its_way(faulty: Open, emulator: Emulator) -> None:
    """A command that had ended when it was cancelled is over within seconds, whatever its lost answer said."""
    env = faulty()
    emulator.fail("run", "hold_after")
    cancelled(env, emulator, "run", "echo ran >>log")
    emulator.release()
    assert env.exec("cat log").text == "ran\n"


def test_a_deadline_during_a_stalled_upload(faulty: Open, emulator: Emulator) -> None:
    """The deadline of a command bounds the upload, too, and nothing is dispatched."""
    env = faulty()
    emulator.fail("write", "hold_before")
    begin = time.monotonic()
    with pytest.raises(CommandTimeout):
        env.exec("true", stdin=b"x", timeout=0.5)
    assert time.monotonic() - begin < 20


def test_closing_ends_what_runs(faulty: Open, emulator: Emulator) -> None:
    """Closing kills running commands and destroys the sandbox; nothing of it is left."""
    env = faulty()
    process = env.start("sleep 600")
    until(lambda: process.state == "dispatched")
    name = name_of(env)
    env.close()
    with pytest.raises(CommandCancelled):
        process.wait(60)
    assert name not in emulator.sandboxes()


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


# -- the end of a session ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["sandbox_stopped", "sandbox_stream_closed"])
@pytest.mark.parametrize("answer", ["410", "409", "bare 410"])
def test_a_stopped_session_is_never_resumed(faulty: Open, emulator: Emulator, answer: str, stream: str) -> None:
    """A session that the provider stops takes its command along, whose outcome is unknown; it is not started again."""
    env = faulty()
    emulator.switch(stopped=answer, stopped_stream=stream)
    process = env.start(": >up; sleep 600")
    until(lambda: env.exec("[ -e up ]").ok)
    emulator.forget()
    emulator.vanish(name_of(env), "stopped")
    with pytest.raises(OutcomeUnknown):
        process.wait(60)
    assert not env.alive()
    with pytest.raises(EnvironmentGone, match="not resumed"):
        env.exec("true")
    assert not {"get", "create"} & emulator.counts().keys()
    emulator.switch(stopped="410", stopped_stream="sandbox_stopped")


def test_a_destroyed_sandbox_is_gone(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that is destroyed by somebody else is gone, and closing it is quiet."""
    env = faulty()
    emulator.vanish(name_of(env))
    assert not env.alive()
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    env.close()


def test_a_stopping_session_is_gone(faulty: Open, emulator: Emulator) -> None:
    """A session on its way to its end takes no commands, and is not waited for."""
    env = faulty()
    emulator.switch(stop_seconds=600.0)
    threading.Thread(target=emulator.vanish, args=(name_of(env), "stopped"), daemon=True).start()
    until(lambda: not env.alive())
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    emulator.switch(stop_seconds=0.0)


def test_a_refused_token_is_said_to_be_that(faulty: Open, emulator: Emulator) -> None:
    """A token that is no longer accepted is not taken for the end of the sandbox."""
    env = faulty()
    emulator.fail("write", "status", 403, code="forbidden")
    with pytest.raises(BackendUnavailable) as caught:
        env.exec("true")
    assert caught.value.reason == "denied"
    assert env.exec("echo on").text == "on\n"


# -- the time limit ------------------------------------------------------------------------------------------------


def test_a_running_command_is_given_more_time(faulty: Open, emulator: Emulator) -> None:
    """A command that runs longer than the time limit is not cut: the limit is extended while it runs."""
    env = faulty(execution_time_limit=9)
    limit = env.expires_at
    process = env.start("until [ -e go ]; do sleep 0.05; done; echo whole")
    until(lambda: emulator.counts(name_of(env)).get("extend", 0) >= 4, 60)
    assert process.state == "dispatched"
    env.exec(": >go")
    assert process.wait(60).text == "whole\n"
    assert limit is not None and env.expires_at is not None and env.expires_at > limit


@pytest.mark.parametrize("extend", [True, False], ids=["refused", "not asked for"])
def test_a_limit_that_is_not_extended_ends_the_command(faulty: Open, emulator: Emulator, extend: bool) -> None:
    """Where the plan or the caller allows no more time the command ends with the session, and is not run again."""
    emulator.switch(max_limit_seconds=4.0)
    env = faulty(execution_time_limit=4, extend=extend)
    with pytest.raises(OutcomeUnknown):
        env.exec("sleep 600")
    assert emulator.counts(name_of(env)).get("extend", 0) == int(extend)
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    emulator.switch(max_limit_seconds=2700.0)
