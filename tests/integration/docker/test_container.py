"""The container itself: what its options do, as `docker inspect` and commands inside see it, and that it goes away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    EnvironmentGone,
    InvalidArgument,
    OutcomeUnknown,
    attach,
    open_environment,
)
from tests.engine import IMAGE, Engine


def ident(env: BaseEnvironment) -> str:
    """The container's id."""
    return env.ref.partition("://")[2]


def inspected(engine: Engine, container: str) -> dict[str, Any]:
    """All that `docker inspect` tells."""
    found: list[dict[str, Any]] = json.loads(engine.cli("inspect", container).stdout)
    return found[0]


def test_container_is_made_and_removed(engine: Engine, listed: Callable[[], set[str]]) -> None:
    """Opening makes one container, with an init and our labels; closing removes it before it returns."""
    before = listed()
    with open_environment("docker", image=IMAGE, host=engine.host) as env:
        assert listed() - before == {ident(env)}
        found = inspected(engine, ident(env))
        assert found["HostConfig"]["Init"] and found["HostConfig"]["AutoRemove"]
        labels = found["Config"]["Labels"]
        assert f".{os.getpid()}." in labels["hermes_env.owner"] and labels["hermes_env.environment"]
        assert env.expires_at is not None
        assert abs(env.expires_at.timestamp() - int(labels["hermes_env.expires"])) < 5
        assert env.alive()
    assert listed() == before and not env.alive()
    env.close()
    with pytest.raises(EnvironmentGone):
        env.exec("true")


def test_options_shape_the_container(engine: Engine, tmp_path: Path) -> None:
    """Every option arrives at the engine as what it means."""
    (tmp_path / "given").write_bytes(b"from outside\0")
    tmp_path.chmod(0o755)
    with open_environment(
        "docker",
        image=IMAGE,
        host=engine.host,
        name=f"hermes-env-test-{os.getpid()}",
        user="agent",
        workdir="/srv/here",
        mounts=[f"{tmp_path}:/given:ro"],
        network=False,
        memory="64m",
        cpus=0.5,
        pids_limit=100,
        read_only=True,
        tmpfs=["/scratch:size=1m,mode=1777"],
        labels={"purpose": "test"},
        ttl=120,
    ) as env:
        found = inspected(engine, ident(env))
        host = found["HostConfig"]
        assert found["Name"] == f"/hermes-env-test-{os.getpid()}"
        assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (64 << 20, 500_000_000, 100)
        assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none"
        assert found["Config"]["Labels"]["purpose"] == "test"
        assert env.exec("id -u; pwd").text.split() == ["1000", "/srv/here"]
        assert env.exec("cat /given/given").stdout == b"from outside\0"
        assert env.exec("echo x >/given/new; echo x >/etc/new; echo x >/scratch/new && ls /scratch").text == "new\n"
        assert env.exec("ls /sys/class/net").text.split() == ["lo"]
        full = env.exec("head -c 2000000 /dev/zero >/scratch/full")
        assert not full.ok and env.exec("wc -c </scratch/full").text.strip() != "2000000"


def test_hardened_container(engine: Engine) -> None:
    """The preset leaves no capability, no network and no way to new privileges; commands and kills still work."""
    with open_environment("docker", image=IMAGE, host=engine.host, hardened=True, user="agent", ttl=120) as env:
        found = inspected(engine, ident(env))["HostConfig"]
        assert (found["CapDrop"], found["PidsLimit"]) == (["ALL"], 512)
        status = env.exec("cat /proc/self/status").text
        assert "CapBnd:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
        assert env.exec("ls /sys/class/net").text.split() == ["lo"]
        with pytest.raises(TimeoutError) as caught:
            env.exec("sleep 300 & setsid sleep 300; :", timeout=1)
        assert not caught.value.result.kill_unconfirmed  # type: ignore[attr-defined]
        assert "sleep 300" not in env.exec("ps -o args").text


def test_files_as_another_user(engine: Engine) -> None:
    """Files that a non-root user writes through the framework are that user's, also in a memory file system."""
    data = bytes(range(256)) * 700
    with open_environment(
        "docker", image=IMAGE, host=engine.host, user="agent", tmpfs=["/scratch:mode=1777"], read_only=True, ttl=120
    ) as env:
        written = env.files.write_bytes("/scratch/new/file", data, make_parents=True)
        assert written.verified and written.size == len(data)
        shown = engine.cli("exec", ident(env), "sh", "-c", "cd /scratch/new; stat -c '%u %g' . file; sha256sum <file")
        assert shown.stdout.decode().split()[:5] == ["1000", "1000", "1000", "1000", written.sha256]
        with pytest.raises(OSError, match="/etc/file"):
            env.files.write_bytes("/etc/file", data)


def test_time_to_live(engine: Engine, listed: Callable[[], set[str]]) -> None:
    """A container whose time is over is removed by the engine itself; the environment then says that it is gone."""
    with open_environment("docker", image=IMAGE, host=engine.host, ttl=2) as env:
        made = ident(env)
        end = time.monotonic() + 60
        while made in listed() and time.monotonic() < end:
            time.sleep(0.1)
        assert made not in listed()
        with pytest.raises(EnvironmentGone):
            env.exec("true")


def test_entrypoint_of_the_callers_own(engine: Engine) -> None:
    """A caller's entry point replaces the keeper; commands run beside it."""
    with open_environment(
        "docker", image=IMAGE, host=engine.host, entrypoint=["sh", "-c", "echo mine >/tmp/mine; sleep 600"], ttl=120
    ) as env:
        assert env.exec("until [ -s /tmp/mine ]; do sleep 0.05; done; cat /tmp/mine").text == "mine\n"
        assert env.expires_at is None


@pytest.mark.parametrize(
    "options",
    [
        {"runtime": "no-such-runtime"},
        {"mounts": ["/no/such/folder:/x"]},
        {"user": "nobody-here"},
        {"memory": "1k"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_failed_creation_leaves_nothing(
    engine: Engine, listed: Callable[[], set[str]], options: dict[str, Any]
) -> None:
    """What the engine refuses is one typed error with the engine's reason, and no container is left in any state."""
    before = listed()
    with pytest.raises((BackendUnavailable, InvalidArgument)) as caught:
        open_environment("docker", image=IMAGE, host=engine.host, **options)
    assert str(caught.value)
    assert listed() == before


def test_entrypoint_that_ends(engine: Engine, listed: Callable[[], set[str]]) -> None:
    """A caller's entry point that ends takes the environment with it, and leaves no container."""
    before = listed()
    with open_environment("docker", image=IMAGE, host=engine.host, entrypoint=["/no/such/program"]) as env:
        with pytest.raises((EnvironmentGone, OutcomeUnknown)):
            env.exec("until false; do sleep 1; done")
        assert not env.alive()
    assert listed() == before


def test_name_that_is_taken(engine: Engine, foreign: str) -> None:
    """A name that another container has is refused, and that container is left alone."""
    name = engine.inspect(foreign, "{{.Name}}").lstrip("/")
    with pytest.raises(InvalidArgument, match="name"):
        open_environment("docker", image=IMAGE, host=engine.host, name=name)
    assert engine.inspect(foreign, "{{.State.Running}}") == "true"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "image"),
        ({"image": IMAGE, "container": "x"}, "container"),
        ({"container": "x", "memory": "1g"}, "memory"),
        ({"image": IMAGE, "mounts": ["relative"]}, "mounts"),
        ({"image": IMAGE, "ttl": 0}, "ttl"),
        ({"image": IMAGE, "host": "ftp://somewhere"}, "host"),
        ({"image": IMAGE, "imgae": "typo"}, "imgae"),
    ],
)
def test_options_that_make_no_sense(engine: Engine, options: dict[str, Any], named: str) -> None:
    """An impossible option is named before anything is made."""
    with pytest.raises(InvalidArgument, match=named):
        open_environment("docker", **{"host": engine.host, **options})


def test_existing_container_is_used_and_left(engine: Engine, foreign: str) -> None:
    """A container that someone else made is used by name and by id, and is still there afterwards."""
    name = engine.inspect(foreign, "{{.Name}}").lstrip("/")
    for given in (name, foreign[:12]):
        with open_environment("docker", container=given, host=engine.host, user="agent") as env:
            assert ident(env) == foreign and env.expires_at is None
            assert env.exec("id -u; echo left >/tmp/left").text == "1000\n"
            env.start("sleep 300")
    assert engine.inspect(foreign, "{{.State.Running}}") == "true"
    assert engine.cli("exec", foreign, "cat", "/tmp/left").stdout == b"left\n"
    assert b"sleep 300\n" not in engine.cli("exec", foreign, "ps", "-o", "args").stdout


def test_attach_joins_and_lets_go(engine: Engine, fresh: BaseEnvironment) -> None:
    """A second client joins by ref, sees the same files, and leaves the container to the first one."""
    fresh.exec("echo shared >/tmp/shared", check=True)
    with attach(fresh.ref, host=engine.host) as second:
        assert second.exec("cat /tmp/shared").text == "shared\n"
        assert second.expires_at is not None
    assert fresh.exec("cat /tmp/shared").text == "shared\n"


def test_detach_then_attach(engine: Engine) -> None:
    """A container that was left keeps its processes' work, and is removed by whoever wants it gone."""
    env = open_environment("docker", image=IMAGE, host=engine.host, ttl=600)
    env.exec("(sleep 1; echo later >/tmp/later) >/dev/null 2>&1 </dev/null &", check=True)
    ref = env.detach()
    try:
        with attach(ref, host=engine.host) as again:
            assert again.exec("until [ -s /tmp/later ]; do sleep 0.05; done; cat /tmp/later").text == "later\n"
    finally:
        engine.cli("rm", "--force", ref.partition("://")[2])
    with pytest.raises(EnvironmentGone):
        attach(ref, host=engine.host)
