"""What the service and other processes get to see."""

from __future__ import annotations

import glob
import os
import secrets
import subprocess
import sys

import pytest

from hermes_env import CommandFailed, open_environment
from hermes_env_vercel import VercelEnvironment
from tests.emulators.vercel.client import Emulator
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
    texts = [text for entry in emulator.log() for text in entry.get("command", ())]
    assert texts and not any(canary in text for text in texts)


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
    assert isinstance(env, VercelEnvironment)
    home = env._area.home
    assert os.stat(home).st_mode & 0o777 == 0o700
    listing = env.exec(f"ls {home}; stat -L -c %h /proc/self/fd/0", stdin=b"secret").text
    assert not any(name.endswith((".in", ".sh")) for name in listing.split()) and listing.split()[-1] == "0"
    env._area.remove()
    assert not os.path.exists(home)


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
