"""Sandboxes and sessions from birth to end, and the emulator's own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING

import httpx2
import pytest
from vercel.sandbox import (
    SandboxApiError,
    SandboxCredentials,
    SandboxQueryByCreatedAt,
    SandboxResources,
    SandboxStreamError,
    SandboxTerminalStateError,
    TagFilter,
)
from vercel.sandbox.sync import SandboxServiceOptions, SyncSandboxClient

from tests.emulators._guard import descendants
from tests.emulators._processes import marked
from tests.emulators.vercel._sandboxes import MARK
from tests.emulators.vercel._switches import SDK_VERSION
from tests.emulators.vercel.client import Emulator
from tests.waiting import until

if TYPE_CHECKING:
    from vercel.sandbox.sync import SyncSandbox, SyncSandboxRuntimeSession

Switched = Callable[..., None]
HERE = os.path.dirname(os.path.abspath(__file__))


@contextmanager
def connected(options: SandboxServiceOptions) -> Iterator[SyncSandboxClient]:
    """A client with these options."""
    client = SyncSandboxClient.create(
        options=options, httpx_client_factory=lambda: httpx2.Client(trust_env=False, timeout=60)
    )
    yield client
    client.close()


def test_the_sdk_is_the_one_that_was_read() -> None:
    """The installed SDK is the release that the emulator was read from."""
    assert version("vercel-sandbox") == SDK_VERSION


@pytest.mark.parametrize("wrong", ["token", "team_id", "project_id"])
def test_wrong_credentials_are_refused(emulator: Emulator, wrong: str) -> None:
    """An unknown token or team answers 403, an unknown project 404, at the first call."""
    right = {"token": emulator.token, "team_id": emulator.team_id, "project_id": emulator.project_id}
    options = SandboxServiceOptions(
        base_url=emulator.base_url, credentials_factory=lambda: SandboxCredentials(**{**right, wrong: "nobody"})
    )
    with connected(options) as client:
        with pytest.raises(SandboxApiError) as caught:
            client.create_sandbox()
        assert caught.value.status_code == (404 if wrong == "project_id" else 403)


def test_an_oidc_token_names_team_and_project(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK takes team and project from the claims of an OIDC token, which wins over an access token."""
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", emulator.oidc_token)
    monkeypatch.setenv("VERCEL_TOKEN", "nobody")
    options = SandboxServiceOptions(base_url=emulator.base_url)
    with connected(options) as client:
        client.create_sandbox().destroy()


def test_create_waits_until_it_runs(client: SyncSandboxClient, emulator: Emulator, switched: Switched) -> None:
    """A sandbox that starts slowly is asked for until it runs."""
    switched(start_seconds=0.6)
    emulator.forget()
    box = client.create_sandbox()
    assert box.session().status == "running"
    assert emulator.counts(box.name)["get"] >= 2
    box.destroy()


def test_what_was_asked_for_is_what_is_told(client: SyncSandboxClient, emulator: Emulator) -> None:
    """Name, tags, resources, time and variables come back, and a listing by a tag finds only its own."""
    name = f"mine-{os.getpid()}"
    mine = client.create_sandbox(
        name=name,
        tags={"owner": "me"},
        resources=SandboxResources(vcpus=4),
        execution_time_limit=timedelta(minutes=7),
        env={"A": "b"},
        region="sfo1",
        persistent=False,
    )
    other = client.create_sandbox(tags={"owner": "you"})
    query = SandboxQueryByCreatedAt(tag=TagFilter(key="owner", value="me"))
    found = list(client.query_sandboxes(query=query, page_size=1))
    assert [box.name for box in found] == [name]
    assert (mine.vcpus, mine.memory, mine.region, mine.persistent) == (4, 8192, "sfo1", False)
    assert mine.execution_time_limit == timedelta(minutes=7)
    assert mine.run_process("printenv", ["A"], capture_output=True).stdout == "b\n"
    again = client.get_sandbox(name=name)
    assert again.tags == {"owner": "me"} and again.session().id == mine.session().id
    for box in (mine, other):
        box.destroy()
    assert name not in emulator.sandboxes()


def test_a_name_is_taken_once_and_places_are_few(
    client: SyncSandboxClient, emulator: Emulator, switched: Switched
) -> None:
    """A name that is taken answers 409; more sandboxes than the plan allows answer 429."""
    box = client.create_sandbox(persistent=False)
    with pytest.raises(SandboxApiError) as caught:
        client.create_sandbox(name=box.name)
    assert caught.value.status_code == 409
    switched(max_sandboxes=1)
    with pytest.raises(SandboxApiError) as full:
        client.create_sandbox()
    assert full.value.status_code == 429
    box.destroy()


@pytest.mark.parametrize(
    ("style", "status", "code"),
    [("410", 410, "sandbox_stopped"), ("409", 409, "sandbox_stopped"), ("bare 410", 410, None)],
)
def test_a_stopped_session_takes_no_request(
    session: SyncSandboxRuntimeSession, switched: Switched, style: str, status: int, code: str | None
) -> None:
    """Whatever is asked of a stopped session answers that it has stopped, in one of three ways."""
    switched(stopped=style)
    process = session.create_process("sleep", ["60"])
    session.stop()
    asks: list[Callable[[], object]] = [
        lambda: session.run_process("true"),
        lambda: session.fs.read_bytes("f"),
        session.query_processes,
        process.wait,
        process.kill,
    ]
    for ask in asks:
        with pytest.raises(SandboxApiError) as caught:
            ask()
        assert (caught.value.status_code, caught.value.code) == (status, code)


def test_any_answer_can_be_had(session: SyncSandboxRuntimeSession, box: SyncSandbox, emulator: Emulator) -> None:
    """A fault answers a status with a code, and nothing was done."""
    emulator.fail("start", "status", 422, code="sandbox_snapshotting", sandbox=box.name)
    with pytest.raises(SandboxApiError) as caught:
        session.create_process("true")
    assert (caught.value.status_code, caught.value.code) == (422, "sandbox_snapshotting")
    assert session.query_processes() == []


def test_a_stop_ends_the_streams_and_the_processes(
    session: SyncSandboxRuntimeSession, box: SyncSandbox, emulator: Emulator
) -> None:
    """When a sandbox stops, open output streams end with an error, and no process of it is left."""
    process = session.create_process("sh", ["-c", "setsid sleep 60 & echo on; sleep 61"])
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    until(lambda: len(emulator.sandboxes()[box.name]["pids"]) == 3)
    pids = emulator.sandboxes()[box.name]["pids"]
    emulator.vanish(box.name, "stopped")
    with pytest.raises((SandboxStreamError, SandboxApiError)):
        process.stdout.read()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_run_that_loses_its_sandbox_says_so(
    session: SyncSandboxRuntimeSession, box: SyncSandbox, emulator: Emulator, switched: Switched
) -> None:
    """A command that is waited for ends with an error of the stream, and is not run again.

    After `sandbox_stream_closed` the SDK asks for the logs first, as the sandbox might still be there.
    """
    for code in ("sandbox_stopped", "sandbox_stream_closed"):
        switched(stopped_stream=code)
        current = box.session()

        def stop(_: object) -> None:
            emulator.vanish(box.name, "stopped")

        with pytest.raises(SandboxStreamError):
            current.run_process("sleep", ["60"], capture_output=True, on_start=stop)
        assert ("logs" in emulator.counts(box.name)) == (code == "sandbox_stream_closed")
        box.run_process("true")  # the sandbox handle resumes it
    commands = [entry["command"] for entry in emulator.log(box.name) if "command" in entry]
    assert commands.count(["sleep", "60"]) == 2


def test_a_destroyed_sandbox_is_gone(
    session: SyncSandboxRuntimeSession,
    box: SyncSandbox,
    client: SyncSandboxClient,
    emulator: Emulator,
    switched: Switched,
) -> None:
    """A sandbox that was taken away answers 404, its session too, or 410."""
    emulator.vanish(box.name)
    for ask in (lambda: session.run_process("true"), lambda: client.get_sandbox(name=box.name)):
        with pytest.raises(SandboxApiError) as caught:
            ask()
        assert (caught.value.status_code, caught.value.code) == (404, "not_found")
    switched(destroyed="410")
    with pytest.raises(SandboxApiError) as late:
        session.run_process("true")
    assert (late.value.status_code, late.value.code) == (410, "sandbox_stopped")


def test_a_sandbox_may_stop_slowly(session: SyncSandboxRuntimeSession, switched: Switched) -> None:
    """While a sandbox stops, requests answer 422, and then that it has stopped."""

    def answer() -> tuple[int, str | None] | None:
        try:
            session.query_processes()
        except SandboxApiError as error:
            return error.status_code, error.code
        return None

    switched(stop_seconds=3600)
    stopper = threading.Thread(target=session.stop)
    stopper.start()
    until(lambda: answer() == (422, "sandbox_stopping"))
    switched(stop_seconds=0)
    stopper.join()
    assert answer() == (410, "sandbox_stopped")


@pytest.mark.parametrize("status", ["failed", "aborted"])
def test_a_sandbox_may_fail(client: SyncSandboxClient, emulator: Emulator, switched: Switched, status: str) -> None:
    """A sandbox that fails while it starts is an error of its creation."""
    switched(start_seconds=60)
    name = f"fails-{status}"

    def fail() -> None:
        until(lambda: name in emulator.sandboxes())
        emulator.vanish(name, status)

    killer = threading.Thread(target=fail)
    killer.start()
    with pytest.raises(SandboxTerminalStateError) as caught:
        client.create_sandbox(name=name)
    killer.join()
    assert caught.value.status == status
    client.get_sandbox(name=name).destroy()


@pytest.mark.parametrize("persistent", [None, False])
def test_a_resumed_sandbox_has_its_files_or_none(
    client: SyncSandboxClient, emulator: Emulator, persistent: bool | None
) -> None:
    """Without another word a sandbox is persistent: it keeps its files and leaves a snapshot; else they are gone."""
    box = client.create_sandbox(persistent=persistent)
    first = box.session()
    first.fs.write_bytes("f", b"kept")
    box.stop()
    snapshots = [snapshot.id for snapshot in client.query_snapshots(name=box.name)]
    assert len(snapshots) == (persistent is None)
    assert box.run_process("ls", capture_output=True).stdout == ("f\n" if persistent is None else "")
    assert box.session().id != first.id
    box.destroy(delete_orphan_snapshots=True)
    kept = {snapshot.id for snapshot in client.query_snapshots()}
    assert not kept & set(snapshots)


def test_what_a_sandbox_is_when_nobody_says(client: SyncSandboxClient, emulator: Emulator, switched: Switched) -> None:
    """Persistence and the execution time limit have defaults of the service."""
    box = client.create_sandbox()
    assert box.persistent is True and box.execution_time_limit == timedelta(minutes=5)
    switched(persistent_default=False, default_limit_seconds=1)
    other = client.create_sandbox()
    assert other.persistent is False
    until(lambda: emulator.sandboxes()[other.name]["status"] == "stopped")
    for made in (box, other):
        made.destroy()


def test_a_deleted_snapshot_cannot_be_resumed(client: SyncSandboxClient) -> None:
    """A sandbox whose snapshot is gone answers 410 `snapshot_not_found`."""
    box = client.create_sandbox()
    box.stop()
    (snapshot,) = client.query_snapshots(name=box.name)
    snapshot.delete()
    with pytest.raises(SandboxApiError) as caught:
        box.run_process("true")
    assert (caught.value.status_code, caught.value.code) == (410, "snapshot_not_found")
    box.destroy()


def test_the_execution_time_limit_stops_it(client: SyncSandboxClient, emulator: Emulator) -> None:
    """A sandbox whose time is over stops by itself; an extension gives it more, up to the plan's limit."""
    box = client.create_sandbox(persistent=False, execution_time_limit=1)
    other = client.create_sandbox(persistent=False, execution_time_limit=60)
    extended = other.session().extend_execution_time_limit(timedelta(minutes=5))
    assert extended.execution_time_limit == timedelta(minutes=6)
    until(lambda: emulator.sandboxes()[box.name]["status"] == "stopped")
    assert other.session().run_process("true").returncode == 0
    with pytest.raises(SandboxApiError) as caught:
        other.session().extend_execution_time_limit(timedelta(hours=1))
    assert caught.value.status_code == 400
    for made in (box, other):
        made.destroy()


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are made by root")
def test_each_sandbox_has_a_process_table_of_its_own(
    session: SyncSandboxRuntimeSession, box: SyncSandbox, client: SyncSandboxClient, emulator: Emulator
) -> None:
    """A sandbox sees its own processes only, and its orphans leave no trace."""
    other = client.create_sandbox(persistent=False)
    other.session().create_process("sleep", ["611"])
    script = "pgrep -f 'sleep 61[1]' || echo none; (sleep 0.01 &); cat /proc/1/comm"
    assert session.run_process("sh", ["-c", script], capture_output=True).stdout == "none\nsleep\n"
    until(lambda: emulator.sandboxes()[box.name]["pids"] == [])
    other.destroy()


def test_a_command_runs_against_it() -> None:
    """The command line runs a command with the credentials and hands on its exit code."""
    program = (
        "import os, sys; sys.exit(7 if os.environ['HERMES_ENV_VERCEL_BASE_URL'].startswith('http://127.0.0.1:') else 1)"
    )
    run = [sys.executable, HERE, "--switch", "kill_scope=group", "--", sys.executable, "-c", program]
    assert subprocess.run(run, check=False).returncode == 7


def test_nothing_outlives_a_killed_client() -> None:
    """When the process that started the emulator is killed, server and commands end, and the directory goes."""
    program = textwrap.dedent("""
        import time
        from tests.emulators.vercel.client import Emulator
        emulator = Emulator()
        session = emulator.connect().create_sandbox().session()
        session.create_process("sh", ["-c", "env -i setsid sleep 600 & setsid sleep 600 &"])
        print(emulator.pid, emulator.root, flush=True)
        time.sleep(600)
    """)
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as child:
        assert child.stdout is not None
        guard, place = child.stdout.readline().decode().split()
        until(lambda: len(descendants(int(guard))) >= 4)
        below = descendants(int(guard))
        os.kill(child.pid, signal.SIGKILL)
    until(lambda: not os.path.exists(place) and not any(os.path.exists(f"/proc/{pid}") for pid in below))


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be chosen by root")
def test_it_can_run_as_another_user() -> None:
    """The whole emulator runs as the user that was asked for, without namespaces, and still ends every process."""
    with Emulator(user="nobody") as emulator, closing(emulator.connect()) as client:
        box = client.create_sandbox(persistent=False)
        session = box.session()
        session.fs.write_bytes("f", b"")
        shown = session.run_process("sh", ["-c", "id -un; stat -c %U f"], capture_output=True)
        assert shown.stdout == "nobody\nnobody\n"
        session.create_process("sh", ["-c", "setsid sleep 600 &"])
        until(lambda: len(emulator.sandboxes()[box.name]["pids"]) == 1)
        box.destroy()
        assert marked(MARK, session.id) == []
