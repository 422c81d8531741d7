"""Two clients of one environment, and what dead ones left: real containers, and sandboxes of the emulator."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hermes_env import BaseEnvironment, attach, open_environment
from tests.emulators.daytona.client import Emulator
from tests.engine import IMAGE, Engine, EngineUnavailable
from tests.engine import engine as running_engine

from .conftest import Run


@dataclass(frozen=True)
class Provider:
    """Where environments are made, how to get there, and what it says that exists."""

    name: str
    access: dict[str, Any]
    more: dict[str, Any]
    service: Engine | Emulator

    def open(self) -> BaseEnvironment:
        """One more environment."""
        return open_environment(self.name, **self.access, **self.more)

    def exists(self, ident: str) -> bool:
        """By the word of the provider."""
        if isinstance(self.service, Emulator):
            return ident in self.service.sandboxes()
        return self.service.inspect(ident, "{{.Id}}") != ""

    @property
    def variables(self) -> dict[str, str]:
        """What a program needs to get there."""
        return dict(self.service.environ if isinstance(self.service, Emulator) else self.service.variables)


@contextlib.contextmanager
def provided(name: str) -> Iterator[Provider]:
    """The provider by that name."""
    if name == "docker":
        with running_engine() as engine:
            yield Provider(name, {"host": engine.host}, {"image": IMAGE, "ttl": 3600}, engine)
    else:
        with Emulator() as emulator:
            access = {"api_key": emulator.key, "api_url": emulator.api_url, "target": "local"}
            yield Provider(name, access, {}, emulator)


@pytest.fixture(scope="module", params=["docker", "daytona"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    """One after the other; without an engine docker is left out, or fails where HERMES_ENV_REQUIRE names it."""
    try:
        with provided(request.param) as found:
            yield found
    except EngineUnavailable as error:
        if "docker" in os.environ.get("HERMES_ENV_REQUIRE", "").split(","):
            pytest.fail(str(error))
        pytest.skip(str(error))


CLIENT = textwrap.dedent(
    """
    import sys
    from hermes_env import open_environment, attach
    import json
    name, how, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    env = open_environment(name, **settings) if how == "open" else attach(how, **settings)
    process = env.start("cat >mine; echo up; sleep 600", stdin=b"of the other client")
    next(iter(process))
    print(env.ref, flush=True)
    if sys.stdin.readline():
        process.kill()
        env.close()
    """
)


@contextlib.contextmanager
def client(provider: Provider, how: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A program with a running command in an environment that it made, or joined; and the ref of it."""
    settings = provider.access if how != "open" else {**provider.access, **provider.more}
    argv = [sys.executable, "-c", CLIENT, provider.name, how, json.dumps(settings)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            ref = process.stdout.readline().decode().strip()
            assert ref, "the client did not get as far as that"
            yield process, ref
        finally:
            process.kill()


def ident(ref: str) -> str:
    """The provider's name of an environment."""
    return ref.partition("://")[2]


@pytest.mark.parametrize("end", ["closes", "is killed"])
def test_two_clients_of_one_environment(provider: Provider, end: str) -> None:
    """A client that joined an environment, and closes it or is killed, takes nothing of the one that made it."""
    with provider.open() as env:
        running = env.start("cat >kept; while [ ! -e go ]; do sleep 0.1; done; cat kept", stdin=b"of the first")
        with client(provider, env.ref) as (process, ref):
            assert ref == env.ref
            assert env.exec("cat mine").stdout == b"of the other client"
            if end == "closes":
                process.communicate(b"close\n", timeout=120)
                assert process.returncode == 0
            else:
                process.send_signal(signal.SIGKILL)
                process.wait(60)
        assert env.exec("cat; : >go", stdin=b"next").stdout == b"next"
        assert running.wait(120).stdout == b"of the first"
        with attach(env.ref, **provider.access) as again:
            assert again.files.read_bytes("kept") == b"of the first"
        name = ident(env.ref)
        assert env.alive() and provider.exists(name)
    assert not provider.exists(name)


def test_reap_on_the_command_line(provider: Provider, run: Run) -> None:
    """`hermes-env reap` removes what a killed client made and prints it; what living clients use stays."""
    options = ["--option", f"host={provider.access['host']}"] if provider.name == "docker" else []
    with provider.open() as living, client(provider, "open") as (process, ref):
        early = run("reap", provider.name, *options, variables=provider.variables)
        assert early.returncode == 0, early.stderr
        assert ident(ref).encode() not in early.stdout, "its client lives"
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert provider.exists(ident(ref))
        done = run("reap", provider.name, *options, variables=provider.variables)
        assert done.returncode == 0, done.stderr
        assert ident(ref) in done.stdout.decode().split()
        assert f"of {provider.name}".encode() in done.stderr
        assert not provider.exists(ident(ref))
        assert living.exec("echo alive").stdout == b"alive\n"
        again = run("reap", provider.name, *options, variables=provider.variables)
        assert ident(ref) not in again.stdout.decode().split()
        assert ident(living.ref) not in (done.stdout + again.stdout).decode().split()
