"""How sandboxes are made, found, left and removed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    EnvironmentGone,
    InvalidArgument,
    OutcomeUnknown,
    attach,
    reap,
)
from tests.emulators.vercel.client import Emulator
from tests.integration.clouds import Open, ident
from tests.integration.vercel.conftest import access
from tests.waiting import until


def test_what_is_asked_for_is_what_the_service_is_told(faulty: Open, emulator: Emulator) -> None:
    """Every option reaches the service, and a sandbox is never persistent."""
    env = faulty(
        name="named",
        image="registry/image:1",
        vcpus=2,
        memory=4096,
        region="sfo1",
        tags={"a": "b"},
        sandbox_env={"PLAIN": "1"},
        domain_allow=["*.example.com"],
        network_allow=["10.0.0.0/8"],
        network_deny=["10.1.0.0/16"],
        execution_time_limit=60,
    )
    assert env.exec("echo $PLAIN").text == "1\n"
    told = emulator.sandboxes()["named"]["request"]
    assert told["tags"].keys() == {"a", "hermes_env.owner", "hermes_env.environment"}
    del told["tags"]
    assert told == {
        "projectId": emulator.project_id,
        "name": "named",
        "image": "registry/image:1",
        "resources": {"vcpus": 2, "memory": 4096},
        "region": "sfo1",
        "env": {"PLAIN": "1"},
        "networkPolicy": {
            "allow": {"*.example.com": []},
            "subnets": {"allow": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"]},
        },
        "timeout": 60_000,
        "persistent": False,
    }


def test_no_network_is_asked_for(faulty: Open, emulator: Emulator) -> None:
    """Without network every connection is denied."""
    env = faulty(network=False)
    assert emulator.sandboxes()[ident(env)]["request"]["networkPolicy"] == {"mode": "deny-all"}


def test_a_sandbox_is_never_kept(faulty: Open, emulator: Emulator) -> None:
    """Nothing of a closed sandbox stays, no snapshot either, whatever the service does by default."""
    emulator.switch(persistent_default=True)
    faulty().close()
    assert emulator.sandboxes() == {} and "snapshot" not in emulator.counts()
    client = emulator.connect()
    assert list(client.query_snapshots()) == []
    client.close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "status", "value": 401}, BackendUnavailable),
        ({"kind": "status", "value": 402}, BackendUnavailable),
        ({"kind": "status", "value": 403}, BackendUnavailable),
        ({"kind": "status", "value": 404}, BackendUnavailable),
        ({"kind": "status", "value": 400}, InvalidArgument),
        ({"kind": "status", "value": 409}, InvalidArgument),
        ({"kind": "status", "value": 429}, BackendUnavailable),
        ({"kind": "status", "value": 500}, BackendUnavailable),
        ({"kind": "drop_after", "reset": True}, BackendUnavailable),
    ],
    ids=lambda value: str(value.get("value", value["kind"])) if isinstance(value, dict) else "",
)
def test_a_failed_creation_leaves_nothing(
    faulty: Open, emulator: Emulator, fault: dict[str, Any], error: type[Exception]
) -> None:
    """A creation that fails, also one whose answer was lost, raises one typed error and leaves no sandbox."""
    emulator.fail("create", **fault)
    with pytest.raises(error):
        faulty()
    assert emulator.sandboxes() == {}


def test_a_name_that_is_taken_is_left_alone(faulty: Open, emulator: Emulator) -> None:
    """A creation that is refused because of its name does not destroy the sandbox that has it."""
    first = faulty(name="taken")
    with pytest.raises(InvalidArgument):
        faulty(name="taken")
    assert first.exec("echo on").text == "on\n"


def test_a_sandbox_that_starts_too_slowly_is_destroyed(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that is not running within the limit is destroyed, not leaked."""
    emulator.switch(start_seconds=600.0)
    with pytest.raises(BackendUnavailable) as caught:
        faulty(open_timeout=0.5)
    emulator.switch(start_seconds=0.0)
    assert caught.value.reason == "unreachable"
    assert emulator.sandboxes() == {}


def test_a_sandbox_that_starts_slowly_is_waited_for(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that is not there at once is asked for until it runs."""
    emulator.switch(start_seconds=1.2)
    env = faulty()
    emulator.switch(start_seconds=0.0)
    assert env.exec("echo up").text == "up\n"


def test_too_many_sandboxes_are_said_to_be_that(faulty: Open, emulator: Emulator) -> None:
    """A plan that allows no more sandboxes is named as the reason, and the one that is open goes on."""
    first = faulty()
    emulator.switch(max_sandboxes=1)
    with pytest.raises(BackendUnavailable) as caught:
        faulty()
    emulator.switch(max_sandboxes=0)
    assert caught.value.reason == "capacity"
    assert first.exec("echo on").text == "on\n"


def test_attaching_resumes_nothing(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that does not run is not started again by attaching to it."""
    env = faulty()
    emulator.vanish(ident(env), "stopped")
    with pytest.raises(EnvironmentGone, match="not resumed"):
        attach(env.ref, **access(emulator))
    with pytest.raises(EnvironmentGone):
        attach("vercel://never-made", **access(emulator))
    assert len(emulator.sandboxes()) == 1


def test_closing_what_was_attached_to_leaves_it(faulty: Open, emulator: Emulator) -> None:
    """Two clients use one sandbox; when the one that joined goes, the other still has it."""
    env = faulty()
    with attach(env.ref, **access(emulator)) as joined:
        joined.files.write_bytes("f", b"1")
    assert env.files.read_bytes("f") == b"1"


def test_only_sandboxes_of_dead_clients_are_reaped(faulty: Open, emulator: Emulator) -> None:
    """The reaper destroys what a killed client left, and nothing of a living one or of other people."""
    mine = faulty()
    client = emulator.connect()
    theirs = client.create_sandbox(tags={"who": "somebody"})
    program = (
        "import os, sys\nfrom hermes_env import open_environment\n"
        "print(open_environment('vercel', base_url=sys.argv[1]).ref, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program, emulator.base_url],
        env={**os.environ, **emulator.environ},
        stdout=-1,
        check=False,
    )
    left = child.stdout.decode().strip().partition("://")[2]
    assert left in emulator.sandboxes()
    assert reap("vercel", **access(emulator)) == [left]
    assert emulator.sandboxes().keys() == {ident(mine), theirs.name}
    theirs.destroy()
    client.close()


def test_reaping_goes_on_after_a_sandbox_that_resists(faulty: Open, emulator: Emulator) -> None:
    """A sandbox that cannot be destroyed now is left to its time limit and not reported as removed."""
    env = faulty()
    client = emulator.connect()
    box = client.get_sandbox(name=ident(env))
    owner = dict(box.tags or {})["hermes_env.owner"].split(".")
    box.update(tags={"hermes_env.owner": ".".join([*owner[:3], "4194304", "1"])})
    client.close()
    emulator.fail("destroy", "status", 500)
    assert reap("vercel", **access(emulator)) == []
    assert reap("vercel", **access(emulator)) == [ident(env)]


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
    emulator.vanish(ident(env), "stopped")
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
    emulator.vanish(ident(env))
    assert not env.alive()
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    env.close()


def test_a_stopping_session_is_gone(faulty: Open, emulator: Emulator) -> None:
    """A session on its way to its end takes no commands, and is not waited for."""
    env = faulty()
    emulator.switch(stop_seconds=600.0)
    threading.Thread(target=emulator.vanish, args=(ident(env), "stopped"), daemon=True).start()
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
    until(lambda: emulator.counts(ident(env)).get("extend", 0) >= 4, 60)
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
    assert emulator.counts(ident(env)).get("extend", 0) == int(extend)
    with pytest.raises(EnvironmentGone):
        env.exec("true")
    emulator.switch(max_limit_seconds=2700.0)
