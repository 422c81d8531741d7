"""Secrets on their way into a container are in no argv of any process, and in nothing that the engine shows."""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Self

import docker
import pytest

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from tests.engine import Engine


class Watch:
    """Reads every command line of this machine, containers included, over and over while it is open."""

    def __init__(self, canary: bytes) -> None:
        self.canary, self.hits, self.rounds = canary, set[bytes](), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.rounds += 1
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        line = file.read()
                except OSError:
                    continue
                if self.canary in line:
                    self.hits.add(line)


@pytest.fixture
def canary() -> str:
    """A secret that is nowhere else."""
    return "CANARY" + os.urandom(12).hex()


def test_watch_finds_what_is_in_an_argv(env: BaseEnvironment, canary: str) -> None:
    """The watch itself works: a secret that the caller puts into an argv is found."""
    with Watch(canary.encode()) as watch:
        env.exec(["sh", "-c", "sleep 1", canary])
    assert watch.hits


def test_stdin_and_variables_are_in_no_argv(
    env: BaseEnvironment, engine: Engine, canary: str, caplog: pytest.LogCaptureFixture
) -> None:
    """stdin and values of variables are in no command line, no log, and nothing that the engine tells."""
    caplog.set_level(logging.DEBUG)
    ident = env.ref.partition("://")[2]
    secret = canary.encode()
    with Watch(secret) as watch:
        process = env.start(
            'read -r l; printf "%s\\n" "$l" "$TOKEN" "$ODD" | cut -c1-6; read -r wait',
            live_stdin=True,
            env={"TOKEN": canary, "ODD": canary + "\udcff"},
        )
        process.write(secret + b"\n")
        stream, _ = next(iter(process))
        assert stream == "stdout"
        shown = engine.cli("inspect", ident).stdout + engine.cli("top", ident).stdout
        execs = json.loads(engine.cli("inspect", "--format", "{{json .ExecIDs}}", ident).stdout)
        api = docker.APIClient(engine.host)
        told = repr([api.exec_inspect(exec_id) for exec_id in execs])
        api.close()
        process.close_stdin()
        result = process.wait(30)
    assert result.stdout == b"CANARY\n" * 3
    assert execs and watch.rounds > 2 and watch.hits == set()
    assert secret not in shown
    assert canary not in told + caplog.text


def test_variables_with_plain_values_are_in_no_argv(env: BaseEnvironment, canary: str) -> None:
    """The engine's own channel for variables is used, not the `env` command."""
    with Watch(canary.encode()) as watch:
        result = env.exec('sleep 0.5; printf %s "$TOKEN"', env={"TOKEN": canary}, stdin=canary.encode())
    assert result.text == canary
    assert watch.rounds > 2 and watch.hits == set()
