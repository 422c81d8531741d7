"""What the service and other processes get to see."""

from __future__ import annotations

import glob
import os
import subprocess
import sys

import pytest

from hermes_env import CommandFailed, open_environment
from hermes_env_vercel import VercelEnvironment
from tests.emulators.vercel.client import Emulator
from tests.integration.cloud_tests import SecrecyTests
from tests.integration.clouds import Open


class TestSecrecy(SecrecyTests):
    """What every staged backend keeps to itself."""


def test_uploads_are_private_whatever_the_service_does(faulty: Open, emulator: Emulator) -> None:
    """Files are asked to be 0600, while a command waits for its turn and under each way to set a mode."""
    for mode in ("open", "chmod"):
        emulator.switch(upload_mode=mode)
        env = faulty()
        assert isinstance(env, VercelEnvironment)
        emulator.fail("run", "hold_before")
        process = env.start("cat", stdin=b"secret" * 10)
        emulator.wait_held("run")
        modes = {name.rpartition(".")[2]: os.stat(name).st_mode & 0o777 for name in glob.glob(f"{env._area.home}/*.*")}
        emulator.release()
        assert process.wait(60).stdout == b"secret" * 10
        assert (modes["in"], modes["sh"]) == (0o600, 0o600)


def test_the_environment_gives_credentials(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments the variables of the process are used, an OIDC token before an access token."""
    for name, value in emulator.environ.items():
        monkeypatch.setenv(name, value)
    with open_environment("vercel", base_url=emulator.base_url) as env:
        assert env.exec("echo env").text == "env\n"
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", emulator.oidc_token)
    monkeypatch.setenv("VERCEL_TOKEN", "wrong")
    with open_environment("vercel", base_url=emulator.base_url) as env:
        assert env.exec("echo oidc").text == "oidc\n"


def test_doctor_tells_where_the_credentials_came_from(emulator: Emulator) -> None:
    """`doctor` names the variable that won, and shows no token."""
    environ = {**os.environ, **emulator.environ, "VERCEL_OIDC_TOKEN": emulator.oidc_token, "COLUMNS": "200"}
    run = [sys.executable, "-m", "hermes_env", "doctor", "vercel"]
    done = subprocess.run(run, env=environ, stdout=-1, stderr=-1, check=False)
    shown = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, shown
    (line,) = [line for line in shown.splitlines() if line.startswith("credentials")]
    assert " ".join(line.split()) == "credentials from VERCEL_OIDC_TOKEN (before VERCEL_TOKEN, which is set, too)"
    assert emulator.token not in shown and emulator.oidc_token not in shown


def test_credentials_are_not_shown(faulty: Open, emulator: Emulator) -> None:
    """Neither options nor errors show the token."""
    env = faulty()
    assert emulator.token not in repr(env.options)
    with pytest.raises(CommandFailed) as caught:
        env.exec("exit 1", check=True)
    assert emulator.token not in repr(caught.value)
