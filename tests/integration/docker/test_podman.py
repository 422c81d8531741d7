"""The same code on Podman's socket, where Debian's Podman runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_env import BackendUnavailable, CommandTimeout, OutcomeUnknown, attach, open_environment, reap
from tests import engine as engines
from tests.engine import IMAGE, Engine, EngineUnavailable

from .test_conformance import ESSENCE, SLOW, conforms
from .test_hosts import carries_everything
from .test_kill import client_of, sleeping, wait_until

CONFIGURATION = """
[containers]
default_ulimits=["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager="cgroupfs"
events_logger="file"
"""
"""Podman without systemd, and with limits that any host can grant."""


@pytest.fixture(scope="module")
def podman() -> Iterator[Engine]:
    """Podman's service with storage of its own; skips where it does not run, saying why."""
    if shutil.which("podman") is None or os.getuid() != 0:
        pytest.skip("Podman's tests need root and Debian's podman and catatonit")
    folder = Path(tempfile.mkdtemp(prefix="hermes-env-podman-"))
    (folder / "containers.conf").write_text(CONFIGURATION)
    base = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run"]
    variables = {**os.environ, "CONTAINERS_CONF": f"{folder}/containers.conf"}
    running = Engine(f"unix://{folder}/podman.sock")
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [*base, "system", "service", "--time=0", running.host], env=variables, stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + 30
        while not running.answers():
            if server.poll() is not None or time.monotonic() > end:
                pytest.skip(f"podman does not run here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.1)
        try:
            engines.ensure_image(running)
            with open_environment("docker", image=IMAGE, host=running.host, ttl=60):
                pass
        except (EngineUnavailable, BackendUnavailable) as error:
            pytest.skip(f"podman runs no containers here: {error}")
        yield running
    finally:
        subprocess.run([*base, "rm", "--all", "--force"], env=variables, capture_output=True, check=False)
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        subprocess.run([*base, "system", "reset", "--force"], env=variables, capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def test_podman_carries_everything(podman: Engine) -> None:
    """Stdin ends, output is exact, files are verified, and the container is gone afterwards."""
    with open_environment("docker", image=IMAGE, host=podman.host, ttl=600) as env:
        carries_everything(env)
        ident = env.ref.partition("://")[2]
        with attach(env.ref, host=podman.host) as again:
            assert again.exec("echo joined").text == "joined\n"
    assert podman.inspect(ident, "{{.Id}}") == ""


def test_podman_unread_stdin(podman: Engine) -> None:
    """Podman 4.3 may drop output after unread stdin; then the outcome is unknown, never a short result."""
    with open_environment("docker", image=IMAGE, host=podman.host, ttl=600) as env:
        for _ in range(5):
            try:
                result = env.exec("head -c 2000000 /dev/zero; exit 3", stdin=bytes(3 << 20))
            except OutcomeUnknown as error:
                result = error.result
                assert len(result.stdout) <= 2_000_000
            else:
                assert (len(result.stdout), result.exit_code) == (2_000_000, 3)
            assert result.stdout == bytes(len(result.stdout))


def test_podman_kill(podman: Engine) -> None:
    """A command over its time is killed with its tree, and the container takes the next one."""
    mark = f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"
    with open_environment("docker", image=IMAGE, host=podman.host, ttl=600) as env:
        with pytest.raises(CommandTimeout) as caught:
            env.exec(f"echo begun; setsid sleep {mark} & sleep {mark}", timeout=2)
        assert sleeping(mark) == [] and caught.value.result.stdout == b"begun\n"
        assert env.exec("echo alive").text == "alive\n"


def test_podman_client_killed(podman: Engine) -> None:
    """A client that is SIGKILLed leaves no process, and its container is reaped."""
    mark = f"{100_000 + int.from_bytes(os.urandom(4), 'big')}"
    with client_of(podman, mark) as (client, ident):
        wait_until(lambda: len(sleeping(mark)) == 6, "the commands did not start")
        client.kill()
    wait_until(lambda: sleeping(mark) == [], "commands outlived their client")
    assert ident in reap("docker", host=podman.host)
    assert podman.inspect(ident, "{{.Id}}") == ""


@SLOW
def test_podman_essence(podman: Engine) -> None:
    """A few laws of the contract hold; of all, those about unread stdin and held streams do not with Podman 4.3."""
    conforms({"image": IMAGE, "host": podman.host, "ttl": 3600}, "--profile", "quick", *ESSENCE)
