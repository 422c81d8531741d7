"""Commands: the SDK's own calls meet what the fact sheet says of the vendor."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest
from vercel.sandbox import SandboxApiError, SandboxCredentials, SandboxStdinError, SandboxStreamError
from vercel.sandbox.sync import SandboxServiceOptions, SyncSandboxClient

from tests.waiting import until

if TYPE_CHECKING:
    from vercel.sandbox.sync import CompletedProcess, SyncSandbox, SyncSandboxRuntimeSession

    from tests.emulators.vercel.client import Emulator

Switched = Callable[..., None]
SMILE = "\N{GRINNING FACE}"


def sh(session: SyncSandboxRuntimeSession, script: str, **options: object) -> CompletedProcess:
    """Run a script to its end."""
    return session.run_process("sh", ["-c", script], capture_output=True, **options)  # type: ignore[arg-type]


def test_a_command_is_its_arguments(session: SyncSandboxRuntimeSession) -> None:
    """No shell reads the arguments, and both streams and the exit code come back."""
    odd = ["a b", "$HOME", "*", "", "it's", "\n", "\udcff".encode("utf-8", "replace").decode()]
    result = session.run_process("sh", ["-c", 'printf "%s|" "$@"; echo e >&2; exit 7', "x", *odd], capture_output=True)
    assert (result.stdout, result.stderr, result.returncode) == ("|".join([*odd, ""]), "e\n", 7)


def test_the_working_directory_is_the_session_s(session: SyncSandboxRuntimeSession) -> None:
    """Without another one a command runs in the directory that the session names."""
    assert sh(session, "pwd").stdout == f"{session.cwd}\n"
    assert sh(session, "pwd", cwd="/usr").stdout == "/usr\n"


def test_variables_of_a_command_come_on_top(session: SyncSandboxRuntimeSession) -> None:
    """A command has the variables of its sandbox and its own."""
    assert sh(session, 'echo "$HOME $A"', env={"A": "x\ny"}).stdout == f"{session.cwd} x\ny\n"


def test_a_program_that_is_missing_has_no_exit_code(session: SyncSandboxRuntimeSession) -> None:
    """A program or a directory that is not there is an error of the service, not a result."""
    for options in ({"command": "no-such-program"}, {"command": "true", "cwd": "/nowhere"}):
        with pytest.raises(SandboxApiError) as caught:
            session.run_process(**options)  # type: ignore[arg-type]
        assert caught.value.status_code == 400
        assert caught.value.code == ("file_error" if "cwd" in options else "executable_not_found")


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"args": ["x" * 131_072]}, 400),
        ({"args": ["x" * 100_000] * 11}, 413),
        ({"args": ["a\0b"]}, 400),
        ({"env": {"A=B": "x"}}, 400),
    ],
    ids=["one-long", "all-long", "nul", "name"],
)
def test_what_cannot_be_run_is_refused(
    session: SyncSandboxRuntimeSession, options: dict[str, Any], status: int
) -> None:
    """Arguments that the kernel or the service does not take, a NUL and odd names of variables are errors."""
    with pytest.raises(SandboxApiError) as caught:
        session.run_process("true", **options)
    assert caught.value.status_code == status


def test_output_is_decoded_piece_by_piece(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """A character that the edge of a piece cuts is lost, where pieces are decoded one by one."""
    script = f"printf '{SMILE}'; printf '\\377'"
    switched(log_chunk_bytes=3)
    assert sh(session, script).stdout == "\ufffd" * 3
    switched(log_decode="incremental")
    assert sh(session, script).stdout == f"{SMILE}\ufffd"


def test_output_is_lossy_and_complete(session: SyncSandboxRuntimeSession) -> None:
    """NUL, CR and escapes survive, a megabyte arrives whole, and no newline is added or cut."""
    assert sh(session, r"printf '\0\r\033[1m\n\n'").stdout == "\0\r\x1b[1m\n\n"
    assert len(cast("str", sh(session, "head -c 1000000 /dev/zero").stdout)) == 1_000_000


def test_logs_are_replayed_from_the_beginning(session: SyncSandboxRuntimeSession) -> None:
    """Every reader of a command's logs starts at the first record, also after its end."""
    process = session.create_process("sh", ["-c", "echo 1; echo 2"])
    assert process.wait() == 0
    again = session.get_process(process.id)
    assert again.stdout is not None and process.stdout is not None
    assert again.stdout.read() == process.stdout.read() == "1\n2\n"


def test_a_detached_command_answers_before_its_end(session: SyncSandboxRuntimeSession) -> None:
    """A command that is not waited for runs on its own, and is listed, the newest first."""
    first = session.create_process("sleep", ["60"])
    second = session.create_process("sleep", ["61"])
    assert first.returncode is None
    listed = session.query_processes()
    assert [(found.id, list(found.args)) for found in listed[:2]] == [(second.id, ["61"]), (first.id, ["60"])]
    for process in (first, second):
        process.kill()
        assert process.wait() == 137


@pytest.mark.parametrize(("style", "code"), [("128+n", 143), ("-1", -1)])
def test_a_signal_gives_the_exit_code(
    session: SyncSandboxRuntimeSession, switched: Switched, style: str, code: int
) -> None:
    """A command that dies of a signal has the exit code that the switch says."""
    switched(signal_exit=style)
    process = session.create_process("sleep", ["60"])
    process.terminate()
    assert process.wait() == code


@pytest.mark.parametrize("scope", ["process", "group"])
def test_a_signal_reaches_the_process_or_its_group(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox, switched: Switched, scope: str
) -> None:
    """The children of a killed command live on, unless the service kills the group."""
    switched(kill_scope=scope, wait_for_pipe_end=False)
    process = session.create_process("sh", ["-c", "sleep 60 & sleep 61"])
    until(lambda: len(emulator.sandboxes()[box.name]["pids"]) == 3)
    process.kill()
    process.wait()
    until(lambda: len(emulator.sandboxes()[box.name]["pids"]) == (0 if scope == "group" else 2))


def test_a_command_that_is_over_takes_no_signal(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """A signal for a command that is over is refused, or ignored."""
    process = session.create_process("true")
    process.wait()
    with pytest.raises(SandboxApiError) as caught:
        process.kill()
    assert caught.value.status_code == 404
    switched(kill_ended="accepted")
    process.kill()


def test_a_stopped_process_still_ends(session: SyncSandboxRuntimeSession) -> None:
    """A process that is stopped and then killed is over."""
    process = session.create_process("sleep", ["60"])
    process.send_signal(signal.SIGSTOP)
    process.kill()
    assert process.wait() == 137


def test_the_end_waits_for_the_pipes(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """A background child that holds stdout keeps its command unfinished, unless only the process counts."""
    script = "(until [ -e go ]; do sleep 0.02; done) & echo $!"
    process = session.create_process("sh", ["-c", script])
    assert process.stdout is not None
    assert process.stdout.readline().strip().isdigit()
    assert process.refresh().returncode is None
    session.fs.write_bytes("go", b"")
    assert process.wait() == 0
    switched(wait_for_pipe_end=False)
    session.fs.remove("go")
    assert sh(session, script).returncode == 0
    session.fs.write_bytes("go", b"")


def test_the_service_kills_after_a_time(session: SyncSandboxRuntimeSession) -> None:
    """A command over its own time is killed."""
    assert session.run_process("sleep", ["60"], kill_after=0.2).returncode == 137


def test_a_killed_command_keeps_its_output(session: SyncSandboxRuntimeSession) -> None:
    """What a command wrote before it was killed is in its logs."""
    process = session.create_process("sh", ["-c", "echo partial; exec sleep 60"])
    assert process.stdout is not None
    assert process.stdout.readline() == "partial\n"
    process.kill()
    assert process.wait() == 137
    again = session.get_process(process.id).stdout
    assert again is not None and again.read() == "partial\n"


# -- standard input ---------------------------------------------------------------------------------------------


def test_no_input_is_empty_input(session: SyncSandboxRuntimeSession) -> None:
    """A command without input reads the end at once."""
    assert sh(session, "cat; echo end").stdout == "end\n"


def test_input_arrives_byte_for_byte(session: SyncSandboxRuntimeSession) -> None:
    """Input of any byte value, longer than one request, arrives whole and ends."""
    data = bytes(range(256)) * 5000
    result = session.run_process("sh", ["-c", "cat >f; wc -c <f"], input=data, capture_output=True)
    assert result.stdout is not None and result.stdout.strip() == str(len(data))
    assert session.fs.read_bytes("f") == data


def test_a_lost_acknowledgement_is_not_written_twice(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A write whose answer is lost is sent again, and its bytes are taken once."""
    emulator.fail("stdin", "drop_after", skip=1, sandbox=box.name)
    assert sh(session, "cat", input=b"once").stdout == "once"
    assert emulator.counts(box.name)["stdin"] == 4  # where it stands, the data twice, the end


def test_an_older_sandbox_ignores_offsets(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """Without `bytesWritten` in its answers the SDK refuses to write."""
    switched(stdin_offsets=False)
    with pytest.raises(SandboxStdinError):
        sh(session, "cat", input=b"x")


def test_a_command_that_does_not_read_is_reported(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """Input that nobody reads answers 504 with the bytes that were taken."""
    switched(stdin_seconds=0.2)
    process = session.create_process("sleep", ["60"], stdin=subprocess.PIPE)
    with pytest.raises(SandboxStdinError) as caught:
        process.stdin.write(bytes(1 << 20))  # type: ignore[union-attr]
    assert isinstance(caught.value.cause, SandboxApiError) and caught.value.cause.status_code == 504
    assert caught.value.cause.data["error"]["bytesWritten"] in range(1, 1 << 20)  # type: ignore[index]
    process.kill()


def test_a_command_that_stops_reading_breaks_the_pipe(session: SyncSandboxRuntimeSession) -> None:
    """Input for a command that has closed its stdin is a broken pipe."""
    process = session.create_process("sh", ["-c", "exec <&-; echo closed; sleep 60"], stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "closed\n"
    with pytest.raises(BrokenPipeError):
        process.stdin.write(b"x")
    process.kill()


def test_input_was_never_asked_for(session: SyncSandboxRuntimeSession) -> None:
    """A command that was started without input takes none."""
    process = session.create_process("sleep", ["60"])
    found = session.get_process(process.id)
    assert found.stdin is not None
    with pytest.raises(SandboxStdinError) as caught:
        found.stdin.write(b"x")
    assert isinstance(caught.value.cause, SandboxApiError)
    assert caught.value.cause.code == "command_stdin_unavailable"
    process.kill()


def post(emulator: Emulator, session: SyncSandboxRuntimeSession, path: str, body: object) -> httpx2.Response:
    """Ask the service without the SDK."""
    with httpx2.Client(trust_env=False) as client:
        return client.post(
            f"{emulator.base_url}/v2/sandboxes/sessions/{session.id}/{path}",
            params={"teamId": emulator.team_id},
            headers={"Authorization": f"Bearer {emulator.token}"},
            json=body,
        )


def test_a_gap_and_a_long_body_are_refused(session: SyncSandboxRuntimeSession, emulator: Emulator) -> None:
    """Bytes after a gap answer 409, bytes that are there are skipped, and a body over a megabyte answers 413."""
    process = session.create_process("cat", stdin=subprocess.PIPE)
    path = f"cmd/{process.id}/stdin"
    assert post(emulator, session, path, {"data": "YWI=", "offset": 0}).json()["bytesWritten"] == 2
    assert post(emulator, session, path, {"data": "YWJj", "offset": 0}).json()["bytesWritten"] == 3
    assert post(emulator, session, path, {"data": "YQ==", "offset": 9}).status_code == 409
    assert post(emulator, session, path, {"data": "A" * 1_000_000}).status_code == 413
    assert post(emulator, session, path, {"close": True}).json()["bytesWritten"] == 3
    assert process.stdout is not None and process.stdout.read() == "abc"


# -- a connection that fails ------------------------------------------------------------------------------------


def test_a_cut_stream_is_taken_up_again(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """After a cut the SDK reads the rest from the logs; the command ran once and nothing is lost or doubled."""
    emulator.fail("run", "abort", 2000, sandbox=box.name)
    result = sh(session, "echo ran >>log; seq 1 2000")
    assert result.stdout == "".join(f"{n}\n" for n in range(1, 2001))
    assert session.fs.read_bytes("log") == b"ran\n"
    assert emulator.counts(box.name)["logs"] == 1


def test_a_lost_connection_to_the_sandbox_is_a_record(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """The record that the stream was closed does not mean that the sandbox has stopped: the logs go on."""
    emulator.fail("run", "stream_closed", 1, sandbox=box.name)
    assert sh(session, "echo alive").stdout == "alive\n"
    emulator.fail("logs", "stream_closed", 0, times=9, sandbox=box.name)
    process = session.create_process("echo", ["x"])
    assert process.stdout is not None
    with pytest.raises(SandboxStreamError) as caught:
        process.stdout.read()
    assert caught.value.code == "sandbox_stream_closed"


def test_a_dispatch_without_an_answer_may_have_run(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A request whose answer is lost has started its command, and the SDK does not send it again."""
    emulator.fail("start", "drop_after", sandbox=box.name)
    with pytest.raises(httpx2.TransportError):
        session.create_process("sh", ["-c", "echo ran >>log"])
    emulator.fail("run", "drop_during", sandbox=box.name)
    with pytest.raises(httpx2.TransportError):
        sh(session, "echo ran >>log")
    until(lambda: session.fs.exists("log") and session.fs.read_bytes("log") == b"ran\nran\n")


def test_a_dispatch_that_was_dropped_before_did_not_run(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A request that never reached the service leaves nothing."""
    emulator.fail("start", "drop_before", reset=True, sandbox=box.name)
    with pytest.raises(httpx2.TransportError):
        session.create_process("touch", ["ran"])
    assert session.query_processes() == [] and not session.fs.exists("ran")


def test_a_cancelled_dispatch_starts_late(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox, switched: Switched
) -> None:
    """A command whose client has gone starts all the same, later."""
    switched(dispatch_seconds=3600)
    emulator.fail("start", "drop_during", sandbox=box.name)
    with pytest.raises(httpx2.TransportError):
        session.create_process("touch", ["late"])
    assert session.query_processes() == []
    switched(dispatch_seconds=0)
    until(lambda: len(session.query_processes()) == 1)


def test_a_held_dispatch_outlives_its_client(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A request that was held when its client gave up starts its command when it is released."""
    credentials = SandboxCredentials(token=emulator.token, team_id=emulator.team_id, project_id=emulator.project_id)
    client = SyncSandboxClient.create(
        options=SandboxServiceOptions(base_url=emulator.base_url, credentials_factory=lambda: credentials),
        httpx_client_factory=lambda: httpx2.Client(trust_env=False, timeout=httpx2.Timeout(60, read=0.5)),
    )
    impatient = client.get_sandbox(name=box.name).session()
    emulator.fail("start", "hold_before", sandbox=box.name)
    with pytest.raises(httpx2.ReadTimeout):
        impatient.create_process("touch", ["late"])
    client.close()
    emulator.wait_held("start")
    assert not os.path.exists(f"{session.cwd}/late")
    emulator.release()
    until(lambda: os.path.exists(f"{session.cwd}/late"))


def test_a_held_dispatch_starts_when_it_is_released(
    session: SyncSandboxRuntimeSession, emulator: Emulator, box: SyncSandbox
) -> None:
    """A request that is held has started nothing; released, it starts its command."""
    emulator.fail("start", "hold_before", sandbox=box.name)
    caller = threading.Thread(target=session.create_process, args=("touch", ["ran"]))
    caller.start()
    emulator.wait_held("start")
    assert not os.path.exists(f"{session.cwd}/ran")
    emulator.release()
    caller.join()
    until(lambda: os.path.exists(f"{session.cwd}/ran"))


def test_too_many_requests_wait_their_turn(
    session: SyncSandboxRuntimeSession, emulator: Emulator, switched: Switched
) -> None:
    """Over the rate limit a request answers 429 with Retry-After, and nothing was done."""
    switched(requests_per_window=1, window_seconds=3600)
    session.create_process("touch", ["first"])
    with pytest.raises(SandboxApiError) as caught:
        session.create_process("touch", ["second"])
    assert (caught.value.status_code, caught.value.code) == (429, "rate_limited")
    assert 0 < int(caught.value.response.headers["Retry-After"]) <= 3600
    switched(requests_per_window=0)
    assert [list(process.args) for process in session.query_processes()] == [["first"]]
