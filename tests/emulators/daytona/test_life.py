"""Sandboxes from birth to end, and the emulator's own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest
from daytona import (
    CreateSandboxFromImageParams,
    CreateSandboxFromSnapshotParams,
    Daytona,
    DaytonaAuthenticationError,
    DaytonaConfig,
    DaytonaError,
    DaytonaNotFoundError,
    ListSandboxesQuery,
    Resources,
    Sandbox,
)

from tests.emulators.daytona._sandboxes import pids_of
from tests.emulators.daytona._switches import SDK_VERSION
from tests.emulators.daytona.client import Emulator
from tests.waiting import until

Switched = Callable[..., None]
HERE = os.path.dirname(os.path.abspath(__file__))


def test_the_sdk_is_the_one_that_was_read() -> None:
    """The installed SDK is the release that the emulator was read from."""
    from importlib.metadata import version

    assert version("daytona") == SDK_VERSION


def test_a_wrong_key_is_refused(emulator: Emulator) -> None:
    """A key that the control plane does not know answers 401 at the first call."""
    client = Daytona(DaytonaConfig(api_key="dtn_wrong", api_url=emulator.api_url, target="local"))
    with pytest.raises(DaytonaAuthenticationError) as caught:
        client.create(timeout=0)
    assert caught.value.status_code == 401


def test_create_waits_until_it_is_started(client: Daytona, switched: Switched) -> None:
    """A sandbox that starts slowly is waited for, by the event or by asking."""
    switched(start_seconds=0.5)
    made = client.create(timeout=0)
    assert made.state is not None and made.state.value == "started"
    made.delete(30)


def test_what_was_asked_for_is_what_is_listed(client: Daytona) -> None:
    """Labels, intervals and resources come back, and a listing by labels finds only its own."""
    labels = {"owner": str(os.getpid())}
    made = client.create(
        CreateSandboxFromImageParams(
            image="debian:12", labels=labels, auto_stop_interval=7, resources=Resources(cpu=2, memory=4, disk=5)
        ),
        timeout=0,
    )
    other = client.create(CreateSandboxFromSnapshotParams(labels={"owner": "someone"}), timeout=0)
    found = list(client.list(ListSandboxesQuery(labels=labels, limit=1)))
    assert [box.id for box in found] == [made.id]
    assert (found[0].auto_stop_interval, found[0].cpu, found[0].disk) == (7, 2, 5)
    made.delete(30)
    other.delete(30)


def test_a_stopped_sandbox_takes_no_command(box: Sandbox) -> None:
    """A stopped sandbox answers 400 until it is started again; its files are still there."""
    box.fs.upload_file(b"kept", "f")
    box.stop(30)
    with pytest.raises(DaytonaError) as caught:
        box.process.exec("true")
    assert caught.value.status_code == 400
    box.start(30)
    assert box.fs.download_file("f") == b"kept"


def test_an_idle_sandbox_is_stopped(client: Daytona, emulator: Emulator, switched: Switched) -> None:
    """After its idle minutes a sandbox is stopped by the provider."""
    switched(minute_seconds=0.1)
    made = client.create(CreateSandboxFromSnapshotParams(auto_stop_interval=1), timeout=0)
    until(lambda: emulator.sandboxes()[made.id]["state"] == "stopped")
    made.delete(30)


def test_deletion_ends_every_process(box: Sandbox, emulator: Emulator) -> None:
    """A deleted sandbox leaves no process, in whatever session it runs."""
    box.process.exec("setsid sleep 600 >/dev/null 2>&1 &")
    until(lambda: len(emulator.sandboxes()[box.id]["pids"]) == 1)
    box.delete(30)
    assert pids_of(box.id) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are made by root")
def test_each_sandbox_has_a_process_table_of_its_own(box: Sandbox, client: Daytona) -> None:
    """A sandbox sees its own processes only."""
    other = client.create(timeout=0)
    other.process.exec("setsid sleep 611 >/dev/null 2>&1 &")
    assert box.process.exec("pgrep -f 'sleep 61[1]' || echo none").result == "none\n"
    other.delete(30)


def test_a_vanished_sandbox_is_not_found(box: Sandbox, emulator: Emulator) -> None:
    """Commands to a sandbox that was taken away answer 404, and so do transfers, which only have a status."""
    emulator.vanish(box.id)
    with pytest.raises(DaytonaNotFoundError):
        box.process.exec("true")
    with pytest.raises(DaytonaError) as caught:
        box.fs.upload_file(b"", "f")
    assert type(caught.value) is DaytonaError and caught.value.status_code == 404
    with pytest.raises(DaytonaError) as download:
        box.fs.download_file("f")
    assert type(download.value) is DaytonaError and download.value.status_code is None


def test_a_command_runs_against_it() -> None:
    """The command line runs a command with the SDK's variables and hands on its exit code."""
    program = "import os, sys; sys.exit(7 if os.environ['DAYTONA_API_URL'].startswith('http://127.0.0.1:') else 1)"
    run = [sys.executable, HERE, "--switch", "shell=dash", "--", sys.executable, "-c", program]
    assert subprocess.run(run, check=False).returncode == 7


def test_nothing_outlives_a_killed_client(tmp_path: object) -> None:
    """When the process that started the emulator is killed, server and commands end, and the directory goes."""
    program = textwrap.dedent("""
        import os, sys, time
        from tests.emulators.daytona.client import Emulator
        from daytona import Daytona, DaytonaConfig
        emulator = Emulator()
        box = Daytona(DaytonaConfig(api_key=emulator.key, api_url=emulator.api_url, target="local")).create(timeout=0)
        box.process.exec("env -i setsid sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 &")
        print(emulator.pid, emulator.root, box.id, flush=True)
        time.sleep(600)
    """)
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as child:
        assert child.stdout is not None
        guard, place, _ = child.stdout.readline().decode().split()
        below = _below(int(guard))
        assert len(below) >= 3
        os.kill(child.pid, signal.SIGKILL)
    until(lambda: not os.path.exists(place) and not any(os.path.exists(f"/proc/{pid}") for pid in below))


def _below(pid: int) -> list[int]:
    from tests.emulators._guard import descendants

    deadline = time.monotonic() + 30
    while len(found := descendants(pid)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be chosen by root")
def test_it_can_run_as_another_user() -> None:
    """Commands and file calls of a sandbox run as the user that was asked for."""
    with Emulator(user="nobody") as emulator:
        client = Daytona(DaytonaConfig(api_key=emulator.key, api_url=emulator.api_url, target="local"))
        box = client.create(timeout=0)
        box.fs.upload_file(b"", "f")
        assert box.process.exec("id -un; stat -c %U f").result == "nobody\nnobody\n"
        with pytest.raises(DaytonaError):
            box.fs.upload_file(b"", "/root/f")
        box.delete(30)
