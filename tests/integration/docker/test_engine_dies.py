"""An engine that is killed in the middle of everything, and comes back under containers that live on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_env import BackendUnavailable, BaseEnvironment, EnvironmentGone, OutcomeUnknown, open_environment
from tests.engine import IMAGE

from .own_engine import OwnEngine
from .test_kill import sleeping, wait_until

LOST = (OutcomeUnknown, BackendUnavailable)


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process of this machine sleeps for."""
    return f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"


@pytest.fixture
def container(own: OwnEngine) -> Iterator[str]:
    """A container that lives on; the engine is there again afterwards."""
    made = own.engine.cli("run", "--detach", "--init", IMAGE, "sleep", "3600").stdout.decode().strip()
    yield made
    if not own.engine.answers():
        own.start()
    own.engine.cli("rm", "--force", made)


@pytest.fixture(params=["unix", "tls"])
def env(own: OwnEngine, container: str, request: pytest.FixtureRequest) -> Iterator[BaseEnvironment]:
    """That container, by either way."""
    ways: dict[str, dict[str, Any]] = {
        "unix": {"host": own.engine.host},
        "tls": {"host": own.address, "tls": str(own.certificates / "client")},
    }
    with open_environment("docker", container=container, **ways[request.param]) as made:
        yield made


def test_engine_killed_during_a_write(own: OwnEngine, env: BaseEnvironment) -> None:
    """The write raises; the old bytes are there, no temporary file is, and the container takes commands again."""
    env.files.write_bytes("/data/file", b"old bytes", make_parents=True)

    def chunks() -> Iterator[bytes]:
        for number in range(32):
            if number == 8:
                own.kill()
            yield os.urandom(1 << 20)

    with pytest.raises(LOST):
        env.files.write_bytes("/data/file", chunks())
    assert not env.alive()
    with pytest.raises(LOST):
        env.exec("true")
    own.start()
    assert env.alive()
    assert env.files.read_bytes("/data/file") == b"old bytes"
    clean = "until [ $(ls -A /data | wc -l) = 1 ]; do sleep 0.1; done; ls -A /data"
    assert env.exec(clean, timeout=30).text == "file\n"


def test_engine_killed_during_a_read(own: OwnEngine, env: BaseEnvironment) -> None:
    """A read that was cut off raises and never ends as if it were whole."""
    env.exec("head -c 64000000 /dev/zero >/big", check=True)
    read = env.files.read_chunks("/big")
    size = len(next(iter(read)))
    own.kill()
    with pytest.raises(LOST):
        size += sum(len(chunk) for chunk in read)
    assert size < 64_000_000
    own.start()
    assert sum(len(chunk) for chunk in env.files.read_chunks("/big")) == 64_000_000


def test_engine_killed_under_commands(own: OwnEngine, env: BaseEnvironment, mark: str) -> None:
    """Running commands are OutcomeUnknown with the output so far and not left behind; new ones are watched."""
    running = [env.start(f"echo begun; sleep {mark}; :") for _ in range(3)]
    for process in running:
        assert next(iter(process)) == ("stdout", b"begun\n")
    own.kill()
    for process in running:
        with pytest.raises(OutcomeUnknown) as caught:
            process.wait(60)
        assert caught.value.result.stdout == b"begun\n" and caught.value.result.exit_code == -1
    own.start()
    assert env.exec("echo on").text == "on\n"
    wait_until(lambda: sleeping(mark) == [], "commands of the lost connections run on")


def test_engine_killed_under_a_container_of_our_own(own: OwnEngine, mark: str) -> None:
    """The engine removes it as it comes back, with its commands, and the environment is gone by name."""
    with open_environment("docker", image=IMAGE, host=own.engine.host, ttl=600) as env:
        ident = env.ref.partition("://")[2]
        process = env.start(f"sleep {mark}; :")
        wait_until(lambda: len(sleeping(mark)) == 1, "the command did not start")
        own.kill()
        with pytest.raises(OutcomeUnknown):
            process.wait(60)
        own.start()
        wait_until(lambda: own.engine.inspect(ident, "{{.Id}}") == "", "the container is there")
        assert sleeping(mark) == []
        with pytest.raises(EnvironmentGone):
            env.exec("true")
