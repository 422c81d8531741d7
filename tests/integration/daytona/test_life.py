"""From the creation of a sandbox to its end: refused, slow, stopped, kept awake, reaped."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    EnvironmentGone,
    InvalidArgument,
    Keeper,
    reap,
)
from hermes_env_daytona import DaytonaEnvironment
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open, ident
from tests.waiting import until


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
