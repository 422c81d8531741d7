"""Sandboxes from birth to end, and the emulator's own end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.metadata import version

import modal
import pytest
from modal import exception

from tests.emulators._guard import descendants
from tests.emulators.modal._switches import SDK_VERSION
from tests.emulators.modal.client import Emulator
from tests.waiting import until

Switched = Callable[..., None]
HERE = os.path.dirname(os.path.abspath(__file__))
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be chosen by root")


def test_the_sdk_is_the_one_that_was_read() -> None:
    """The installed SDK is the release that the emulator was read from."""
    assert version("modal") == SDK_VERSION


def test_a_wrong_token_is_refused(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either half."""
    monkeypatch.setenv("MODAL_SERVER_URL", emulator.url)
    for one, secret in ((emulator.token_id, "as-wrong"), ("ak-wrong", emulator.token_secret)):
        client = modal.Client.from_credentials(one, secret)
        with pytest.raises(exception.AuthError):
            modal.App.lookup("tests", client=client)
        client.close()


def test_what_was_asked_for_is_what_is_there(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """Options of a sandbox come back, and a listing by tags finds only its own."""
    tags = {"owner": "one", "also": "x"}
    made = modal.Sandbox.create(
        app=app, client=client, tags=tags, name="mine", cpu=0.5, memory=512, timeout=600, idle_timeout=60, region="eu"
    )
    other = modal.Sandbox.create(app=app, client=client, tags={"owner": "two"})
    found = list(modal.Sandbox.list(app_id=app.app_id, tags={"owner": "one"}, client=client))
    assert [box.object_id for box in found] == [made.object_id] and found[0].get_tags() == tags
    assert modal.Sandbox.from_name("tests", "mine", client=client).object_id == made.object_id
    seen = emulator.sandboxes()[made.object_id]
    assert (seen["cpu"], seen["memory"], seen["timeout"], seen["idle_timeout"]) == (0.5, 512, 600, 60)
    assert seen["regions"] == ["eu"]
    made.set_tags({"owner": "two"})
    found = list(modal.Sandbox.list(app_id=app.app_id, tags={"owner": "two"}, client=client))
    assert {box.object_id for box in found} == {made.object_id, other.object_id}
    made.terminate()
    other.terminate()


def test_an_entrypoint_that_cannot_be_started(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """Creation is refused, and nothing is left of it."""
    before = set(emulator.sandboxes())
    with pytest.raises(exception.InvalidError, match="/no/such"):
        modal.Sandbox.create("/no/such", app=app, client=client)
    assert set(emulator.sandboxes()) == before


def test_the_control_plane_renews_its_token(emulator: Emulator, switched: Switched) -> None:
    """The SDK asks for another one before the first ends."""
    switched(auth_seconds=1.0)
    client = emulator.connect()
    app = modal.App.lookup("tests", create_if_missing=True, client=client)
    made = modal.Sandbox.create(app=app, client=client)
    emulator.forget()
    until(lambda: made.poll() is None and emulator.counts().get("AuthTokenGet", 0) >= 2)
    made.terminate()
    assert {entry["status"] for entry in emulator.log()} == {"OK"}
    client.close()


def test_a_listing_has_pages(client: modal.Client, app: modal.App, switched: Switched) -> None:
    """The SDK asks on until there is no more."""
    switched(page=2)
    made = {modal.Sandbox.create(app=app, client=client, tags={"set": "p"}) for _ in range(5)}
    found = list(modal.Sandbox.list(app_id=app.app_id, tags={"set": "p"}, client=client))
    assert sorted(box.object_id for box in found) == sorted(box.object_id for box in made)
    for box in made:
        box.terminate()
    assert list(modal.Sandbox.list(app_id=app.app_id, tags={"set": "p"}, client=client)) == []


def test_a_name_is_taken_once(client: modal.Client, app: modal.App) -> None:
    """Until its sandbox has ended."""
    made = modal.Sandbox.create(app=app, client=client, name="once")
    with pytest.raises(exception.AlreadyExistsError):
        modal.Sandbox.create(app=app, client=client, name="once")
    made.terminate()
    modal.Sandbox.create(app=app, client=client, name="once").terminate()


def test_too_many_are_refused(client: modal.Client, app: modal.App, switched: Switched, emulator: Emulator) -> None:
    """As a workspace at its limit does."""
    switched(max_sandboxes=sum(box["state"] == "running" for box in emulator.sandboxes().values()) + 1)
    made = modal.Sandbox.create(app=app, client=client)
    with pytest.raises(exception.ResourceExhaustedError):
        modal.Sandbox.create(app=app, client=client)
    made.terminate()


def test_a_sandbox_with_a_gpu_is_of_the_first_version(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """The SDK makes it by other calls, and everything works."""
    made = modal.Sandbox.create(app=app, client=client, gpu="T4", env={"A": "b"}, tags={"x": "y"})
    assert len(made.object_id) == 25 and emulator.sandboxes()[made.object_id]["gpu"] == "T4"
    assert made.exec("sh", "-c", "echo $A").stdout.read() == "b\n"
    attached = modal.Sandbox.from_id(made.object_id, client=client)
    assert attached.get_tags() == {"x": "y"}
    attached.terminate()
    assert made.poll() == 137


def test_the_entrypoint_has_streams_too(client: modal.Client, app: modal.App) -> None:
    """They are read after its end as well, which is the sandbox's."""
    made = modal.Sandbox.create("sh", "-c", "read line; echo got $line; echo err >&2; exit 3", app=app, client=client)
    made.stdin.write(b"hi\n")
    made.stdin.write_eof()
    made.stdin.drain()
    made.wait(raise_on_termination=False)
    assert (made.returncode, made.stdout.read(), made.stderr.read()) == (3, "got hi\n", "err\n")
    with pytest.raises(exception.Error):
        made.exec("true")


def test_termination_ends_every_process(box: modal.Sandbox, emulator: Emulator) -> None:
    """In whatever session it runs; a second termination changes nothing."""
    box.exec("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &").wait()
    until(lambda: len(emulator.sandboxes()[box.object_id]["pids"]) == 2)
    box.terminate()
    assert emulator.sandboxes()[box.object_id]["pids"] == []
    box.terminate()
    assert (box.poll(), emulator.sandboxes()[box.object_id]["state"]) == (137, "terminated")
    with pytest.raises(exception.SandboxTerminatedError):
        box.wait()


def test_termination_during_a_command(box: modal.Sandbox) -> None:
    """Its output ends, its code is not known."""
    process = box.exec("sh", "-c", "echo hi; sleep 600", text=False)
    parts = iter(process.stdout)
    assert next(parts) == b"hi\n"
    modal.Sandbox.from_id(box.object_id, client=box.client).terminate()
    assert list(parts) == []
    with pytest.raises(exception.NotFoundError):
        process.wait()


@pytest.mark.parametrize(
    ("options", "state", "code"), [({"timeout": 1}, "timeout", 124), ({"idle_timeout": 1}, "idle_timeout", 0)]
)
def test_a_sandbox_over_its_time(
    client: modal.Client, app: modal.App, emulator: Emulator, options: dict[str, int], state: str, code: int
) -> None:
    """It ends by itself, and says why."""
    made = modal.Sandbox.create(app=app, client=client, **options)  # type: ignore[arg-type]
    until(lambda: emulator.sandboxes()[made.object_id]["state"] == state)
    assert made.poll() == code
    until(lambda: emulator.sandboxes()[made.object_id]["pids"] == [])


def test_a_busy_sandbox_is_not_idle(client: modal.Client, app: modal.App, emulator: Emulator) -> None:
    """While a command runs, idle time does not count."""
    made = modal.Sandbox.create(app=app, client=client, idle_timeout=1)
    assert made.exec("sleep", "2.5").wait() == 0
    until(lambda: emulator.sandboxes()[made.object_id]["state"] == "idle_timeout")


@pytest.mark.usefixtures("private")
def test_each_sandbox_has_a_root_of_its_own(box: modal.Sandbox, client: modal.Client, app: modal.App) -> None:
    """Files, processes and /tmp of one are not the other's, nor the machine's."""
    other = modal.Sandbox.create(app=app, client=client)
    box.exec("sh", "-c", "echo mine > /etc/emulated; echo mine > /tmp/emulated; sleep 600 & ").wait()
    seen = other.exec("sh", "-c", "cat /etc/emulated /tmp/emulated 2>&1 | grep -c mine; pgrep -c -f 'sleep 60[0]'")
    assert seen.stdout.read() == "0\n0\n"
    assert not os.path.exists("/etc/emulated")
    assert box.exec("cat", "/etc/emulated").stdout.read() == "mine\n"
    other.terminate()


@pytest.mark.usefixtures("private")
def test_a_blocked_network_has_only_itself(client: modal.Client, app: modal.App) -> None:
    """Commands go through the worker all the same."""
    made = modal.Sandbox.create(app=app, client=client, block_network=True)
    assert made.exec("sh", "-c", "cat /proc/net/dev | grep -c :").stdout.read() == "1\n"
    made.terminate()


@pytest.mark.usefixtures("private")
def test_a_volume_is_in_every_sandbox_that_has_it(client: modal.Client, app: modal.App) -> None:
    """And read-only where that was asked for."""
    volume = modal.Volume.from_name("shared", create_if_missing=True, client=client)
    first = modal.Sandbox.create(app=app, client=client, volumes={"/data": volume})
    second = modal.Sandbox.create(
        app=app, client=client, volumes={"/mnt/data": volume.with_mount_options(read_only=True)}
    )
    assert first.exec("sh", "-c", "echo kept > /data/f").wait() == 0
    process = second.exec("sh", "-c", "cat /mnt/data/f; echo x > /mnt/data/f")
    assert process.stdout.read() == "kept\n" and "Read-only" in process.stderr.read()
    first.terminate()
    second.terminate()


def test_secrets_by_name(client: modal.Client, app: modal.App) -> None:
    """One that is there arrives; one that is not is an error at creation."""
    modal.Secret.objects.create("known", {"KEY": "value"}, client=client)
    made = modal.Sandbox.create(app=app, client=client, secrets=[modal.Secret.from_name("known", client=client)])
    assert made.exec("sh", "-c", "echo $KEY").stdout.read() == "value\n"
    made.terminate()
    with pytest.raises(exception.NotFoundError, match="unknown"):
        modal.Sandbox.create(app=app, client=client, secrets=[modal.Secret.from_name("unknown", client=client)])


def test_without_a_private_root(client: modal.Client, app: modal.App, switched: Switched, emulator: Emulator) -> None:
    """As for users that are not root: commands run on this machine, and end with the sandbox all the same."""
    switched(isolated=False)
    made = modal.Sandbox.create(app=app, client=client)
    place = made.exec("pwd").stdout.read().strip()
    assert place.startswith(emulator.root)
    made.filesystem.write_bytes(b"abc", f"{place}/f")
    with open(f"{place}/f", "rb") as file:
        assert file.read() == b"abc"
    made.exec("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & env -i setsid sleep 600 >/dev/null 2>&1 &").wait()
    made.terminate()
    assert emulator.sandboxes()[made.object_id]["pids"] == []


@AS_ROOT
def test_it_can_run_as_another_user() -> None:
    """Commands and file calls of a sandbox run as the user that was asked for."""
    with Emulator(user="nobody") as emulator:
        client = emulator.connect()
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        made = modal.Sandbox.create(app=app, client=client)
        assert made.exec("id", "-un").stdout.read() == "nobody\n"
        made.terminate()
        client.close()


def test_a_command_runs_against_it() -> None:
    """The command line runs a command with the SDK's variables and hands on its exit code."""
    program = "import os, sys; sys.exit(7 if os.environ['MODAL_SERVER_URL'].startswith('http://127.0.0.1:') else 1)"
    run = [sys.executable, HERE, "--switch", "page=2", "--", sys.executable, "-c", program]
    assert subprocess.run(run, check=False).returncode == 7


def test_a_switch_that_is_not_known_is_refused() -> None:
    """By the command line, before anything is started."""
    run = subprocess.run([sys.executable, HERE, "--switch", "nope=1", "--", "true"], check=False, capture_output=True)
    assert run.returncode == 2 and b"unknown switches: nope" in run.stderr


def test_nothing_outlives_a_killed_server() -> None:
    """When the server is killed, the guard ends what it left."""
    with Emulator() as emulator:
        client = emulator.connect()
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        modal.Sandbox.create(app=app, client=client).exec("sh", "-c", "env -i setsid sleep 600 &").wait()
        client.close()
        below = descendants(emulator.pid)
        assert len(below) >= 4
        os.kill(below[0], signal.SIGKILL)
        until(lambda: not os.path.exists(emulator.root) and not any(os.path.exists(f"/proc/{pid}") for pid in below))


def test_a_sandbox_whose_first_process_is_killed(box: modal.Sandbox, emulator: Emulator) -> None:
    """As by the machine when memory is short: the sandbox has failed, and nothing waits for it."""
    process = box.exec("sleep", "600")
    first = emulator.sandboxes()[box.object_id]["first"]
    os.kill(first, signal.SIGKILL)
    with pytest.raises(exception.NotFoundError):
        process.wait()
    until(lambda: emulator.sandboxes()[box.object_id]["state"] == "failure")
    with pytest.raises(exception.NotFoundError):
        box.exec("true")


def test_nothing_outlives_a_killed_client() -> None:
    """When the process that started the emulator is killed, server and commands end, and the directory goes."""
    program = textwrap.dedent("""
        import modal, time
        from tests.emulators.modal.client import Emulator
        emulator = Emulator()
        client = emulator.connect()
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        box = modal.Sandbox.create(app=app, client=client)
        box.exec("sh", "-c", "env -i setsid sleep 600 >/dev/null 2>&1 & setsid sleep 600 >/dev/null 2>&1 &").wait()
        print(emulator.pid, emulator.root, flush=True)
        time.sleep(600)
    """)
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    environ = {**os.environ, "MODAL_CONFIG_PATH": "/nonexistent"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root, env=environ) as child:
        assert child.stdout is not None
        guard, place = child.stdout.readline().decode().split()
        deadline = time.monotonic() + 30
        while len(below := descendants(int(guard))) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(below) >= 5
        os.kill(child.pid, signal.SIGKILL)
    until(lambda: not os.path.exists(place) and not any(os.path.exists(f"/proc/{pid}") for pid in below))
