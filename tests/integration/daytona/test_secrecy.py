"""What the service and other processes get to see."""

from __future__ import annotations

import os
import secrets

import pytest

from hermes_env import BackendUnavailable, CommandFailed, open_environment
from hermes_env_daytona import DaytonaEnvironment
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import Open
from tests.processes import showing
from tests.waiting import until


def test_command_text_is_constant(faulty: Open, emulator: Emulator) -> None:
    """The service is given no script, argument, variable or stdin as command text."""
    env, canary = faulty(), secrets.token_hex(16)
    emulator.forget()
    env.exec(f"echo {canary}; cat", stdin=canary.encode(), env={"TOKEN": canary})
    env.exec(["echo", canary], cwd="/")
    env.files.write_bytes("f", canary.encode())
    texts = [entry.get("command", "") for entry in emulator.log()]
    assert any(texts) and not any(canary in text for text in texts)


def test_stdin_and_variables_are_in_no_argument_list(faulty: Open) -> None:
    """While a command runs, nothing shows its stdin or the values of its variables."""
    env, canary = faulty(), secrets.token_hex(16)
    process = env.start(
        ": >up; cat >/dev/null; until [ -e go ]; do sleep 0.02; done", stdin=canary.encode() * 9, env={"TOKEN": canary}
    )
    until(lambda: env.exec("[ -e up ]").ok)
    seen = showing(canary.encode())
    env.exec(": >go")
    process.wait(60)
    assert seen == []


def test_the_private_directory_is_private_and_goes(faulty: Open) -> None:
    """The directory of staged files is 0700, stdin is unlinked before the command runs, and nothing stays."""
    env = faulty()
    assert isinstance(env, DaytonaEnvironment)
    home = env._area.home
    assert os.stat(home).st_mode & 0o777 == 0o700
    listing = env.exec(f"ls {home}; stat -L -c %h /proc/self/fd/0", stdin=b"secret").text
    assert not any(name.endswith((".in", ".sh")) for name in listing.split()) and listing.split()[-1] == "0"
    env._area.remove()
    assert not os.path.exists(home)


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
