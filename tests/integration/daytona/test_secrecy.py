"""What the service and other processes get to see."""

from __future__ import annotations

import pytest

from hermes_env import BackendUnavailable, CommandFailed, open_environment
from tests.emulators.daytona.client import Emulator
from tests.integration.cloud_tests import SecrecyTests
from tests.integration.clouds import Open


class TestSecrecy(SecrecyTests):
    """What every staged backend keeps to itself."""


def test_a_file_of_the_working_directory_gives_no_credentials(
    emulator: Emulator, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in `.env` of the working directory is used only when that is asked for."""
    for name in ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN", "DAYTONA_ORGANIZATION_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(str(tmp_path))
    with open(".env", "w") as file:
        file.write(f"DAYTONA_API_KEY={emulator.key}\n")
    with pytest.raises(BackendUnavailable, match="dashboard/keys") as caught:
        open_environment("daytona", api_url=emulator.api_url, target="local")
    assert caught.value.reason == "no_credentials"
    with open_environment("daytona", api_url=emulator.api_url, target="local", dotenv=True) as env:
        assert env.exec("echo asked").text == "asked\n"


def test_the_environment_gives_credentials(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments the variables of the process are used."""
    for name, value in emulator.environ.items():
        monkeypatch.setenv(name, value)
    with open_environment("daytona") as env:
        assert env.exec("echo env").text == "env\n"


def test_credentials_are_not_shown(faulty: Open, emulator: Emulator) -> None:
    """Neither options nor errors show the key."""
    env = faulty()
    assert emulator.key not in repr(env.options)
    with pytest.raises(CommandFailed) as caught:
        env.exec("exit 1", check=True)
    assert emulator.key not in repr(caught.value)
