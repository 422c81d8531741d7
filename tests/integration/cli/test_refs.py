"""Environments that run already: joined by their ref, left running, and reaped when their client is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_env import open_environment
from hermes_env._cli._copy import route

from .conftest import ROOM, Run, environment

LEAVE = f"""
import sys
from hermes_env import open_environment
env = open_environment({ROOM!r}, building=sys.argv[1])
env.files.write_bytes("kept", b"from the first client")
print(env.detach(), flush=True)
"""


@pytest.fixture
def building(tmp_path: Path) -> Path:
    """Where the rooms are."""
    path = tmp_path / "building"
    path.mkdir()
    return path


@pytest.fixture
def ref(folder: Path, building: Path) -> str:
    """An environment that another program made and left; that program has ended."""
    command = [sys.executable, "-c", LEAVE, str(building)]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=True, timeout=60)
    return done.stdout.decode().strip()


def test_a_ref_stands_for_an_environment(run: Run, ref: str, building: Path) -> None:
    """`exec`, `read`, `write` and `doctor` join what the ref names, find its files, and leave it running."""
    option = ("--option", f"building={building}")
    assert run("exec", ref, *option, "--", "cat", "kept").stdout == b"from the first client"
    assert run("write", ref, "more", *option, input=b"\0\xff").returncode == 0
    assert run("read", ref, "more", *option).stdout == b"\0\xff"
    assert run("doctor", ref, *option).returncode == 0
    (room,) = building.iterdir()
    assert {path.name for path in room.iterdir()} == {".labels", "kept", "more"}


def test_cp_takes_a_ref() -> None:
    """`cp` finds the path behind a ref, and still takes a path of two slashes for a path."""
    assert route("docker://box:/etc/hosts", "here").backend == "docker://box"
    assert route("docker://box:/a:b", "here").inside == "/a:b"
    assert route("docker://etc/hosts", "here").inside == "//etc/hosts"


def test_what_is_gone_is_told(run: Run, building: Path) -> None:
    """A ref whose environment is gone is exit code 3 and names it; for `exec` 125, as for every failure of ours."""
    ref, option = f"{ROOM}://{building}/gone", ("--option", f"building={building}")
    done = run("read", ref, "kept", *option)
    assert done.returncode == 3 and b"there is no room" in done.stderr
    assert run("exec", ref, *option, "--", "true").returncode == 125


@pytest.mark.parametrize("command", ["reap", "conformance"])
def test_some_commands_take_a_backend_only(run: Run, building: Path, command: str) -> None:
    """A ref where a backend is meant is wrong usage, and says what to give instead."""
    done = run(command, f"{ROOM}://{building}", "--option", f"building={building}")
    assert done.returncode == 2 and f"give {ROOM}".encode() in done.stderr


def test_an_environment_that_cannot_be_joined_says_so(run: Run) -> None:
    """A backend without `reattach` refuses a ref by name."""
    done = run("read", "local://anything", "kept")
    assert done.returncode == 1 and b"reattach" in done.stderr


def test_reap_removes_what_dead_clients_left(
    run: Run, ref: str, building: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an ended program left is removed and printed; what a living one uses is not, nor what has no label."""
    monkeypatch.syspath_prepend(folder)
    (building / "somebody's").mkdir()
    with open_environment(ROOM, building=str(building)) as living:
        done = run("reap", ROOM, "--option", f"building={building}", "--option", "name=any")
        assert (done.returncode, done.stdout.decode().splitlines()) == (0, [ref.partition("://")[2]])
        assert f"removed 1 of {ROOM}".encode() in done.stderr
        assert living.exec("test -e .labels").ok
    assert [path.name for path in building.iterdir()] == ["somebody's"]
    again = run("reap", ROOM, "--option", f"building={building}")
    assert (again.returncode, again.stdout) == (0, b"")


def test_a_project_is_never_written_over(run: Run, folder: Path) -> None:
    """`new-backend` refuses a folder that holds something, and a name that cannot be a package."""
    assert run("new-backend", "box", "--dir", "here").returncode == 0
    before = sorted(folder.joinpath("here").rglob("*"))
    again = run("new-backend", "box", "--dir", "here")
    assert again.returncode == 2 and b"here" in again.stderr
    assert sorted(folder.joinpath("here").rglob("*")) == before
    for name in ("Box", "a-b", "1box", "box_", ""):
        assert run("new-backend", name, "--dir", "there").returncode == 2
    assert not folder.joinpath("there").exists()


@pytest.mark.parametrize("option", ["token=hunter2", "login={}"])
@pytest.mark.parametrize("way", ["suite", "plugin"])
def test_every_command_line_refuses_secrets(folder: Path, way: str, option: str) -> None:
    """The suite's own command and its pytest plugin refuse a secret as `hermes-env` does, and do not repeat it."""
    module = "cli_plugin:VaultEnvironment"
    plugin = ["-p", "hermes_env_conformance.plugin", "--hermes-backend", module, "--hermes-option", option]
    words = ["hermes_env_conformance", module, "--option", option] if way == "suite" else ["pytest", *plugin]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == (2 if way == "suite" else 4), told
    assert "is a secret" in told and "HERMES_ENV_CLI_PLUGIN_VAULTENVIRONMENT_" in told and "hunter2" not in told


@pytest.mark.parametrize(
    "name", ["local", "docker", "ssh", "daytona", "modal", "vercel", "conformance", "tools", "aio", "files"]
)
def test_a_project_never_takes_a_name_that_is_in_use(run: Run, folder: Path, name: str) -> None:
    """`new-backend` refuses what the framework's own packages are called, and writes nothing."""
    done = run("new-backend", name, "--dir", "there")
    assert done.returncode == 2 and name.encode() in done.stderr
    assert not (folder / "there").exists()


def test_a_project_never_takes_the_name_of_an_installed_backend(run: Run, folder: Path) -> None:
    """A backend of somebody else, known by its entry point alone, keeps its name."""
    metadata = folder / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hermes_env.backends]\ntheirs = cli_plugin:VaultEnvironment\n")
    assert run("new-backend", "theirs", "--dir", "there").returncode == 2
    assert run("new-backend", "ours", "--dir", "there").returncode == 0
