"""What the documents show is run as it stands there."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import hermes_env
from hermes_env._cli._app import app
from tests import sshd
from tests.venvs import python_of

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KNOWN = {"python", "py", "sh", "toml", "yaml", "console", "text"}
RUNTIMES = {
    "runtime-inspect-ai.md": "inspect_ai",
    "runtime-pydantic-ai.md": "pydantic_ai",
    "runtime-deepagents.md": "deepagents",
}
"""Pages whose examples run in the venv of an agent runtime."""
EMULATED = {
    f"{name}.md": [sys.executable, str(ROOT / "tests/emulators" / name), "--"]
    for name in ("daytona", "modal", "vercel")
}
"""Runs the programs of a page with an emulator to talk to."""


def blocks(*languages: str) -> list[object]:
    """Code blocks in some languages, each with its place as test id."""
    found: list[object] = []
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        text = path.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match[1] in languages:
                line = text[: match.start()].count("\n") + 1
                found.append(pytest.param(path, match[2], id=f"{path.name}:{line}"))
    return found


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_examples_run(page: Path, code: str, tmp_path: Path) -> None:
    """Each Python example runs to its end, with warnings as errors, against a server where its page needs one."""
    runtime = RUNTIMES.get(page.name)
    # A runtime's own imports warn of this and that.
    python = [sys.executable, "-W", "error"] if runtime is None else [python_of(runtime)]
    with surroundings(page, tmp_path) as (prefix, variables):
        done = subprocess.run(
            [*prefix, *python, "-c", code],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def surroundings(page: Path, folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """What a page's examples talk to: a command to run them under, and their environment."""
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    if page.name in EMULATED:
        yield EMULATED[page.name], variables
    elif page.name == "ssh.md":
        if reason := sshd.missing():
            pytest.skip(reason)
        home = folder / "home"
        home.mkdir(mode=0o700)
        server = folder / "server"
        server.mkdir()
        with sshd.running(sshd.Sshd(server)) as running:
            yield [], {**variables, "HOME": str(home), **_client(home, running)}
    else:
        yield [], variables


def _client(home: Path, server: sshd.Sshd) -> dict[str, str]:
    """A client configuration in which the page's host is our server."""
    options = server.options()
    folder = home / ".ssh"
    folder.mkdir(mode=0o700)
    folder.joinpath("config").write_text(
        f"Host build\n  HostName {options['host']}\n  Port {options['port']}\n"
        f"  IdentityFile {options['key_file']}\n  UserKnownHostsFile {options['known_hosts']}\n"
    )
    return {"HERMES_ENV_SSH_CONFIG": str(folder / "config")}


@pytest.mark.parametrize(("page", "code"), blocks("sh"))
def test_shell_examples_run(page: Path, code: str, tmp_path: Path) -> None:
    """Shell examples run in an empty folder; of those that would build or check the project, the parts must exist."""
    if commands := re.findall(r"^make (\w+)", code, re.MULTILINE):
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(commands) <= set(targets)
        return
    if ".venv/bin/" in code:
        programs = re.findall(r"\.venv/bin/(\w+)", code)
        assert programs and all((Path(sys.executable).parent / program).exists() for program in programs)
        return
    with surroundings(page, tmp_path) as (prefix, variables):
        done = subprocess.run(
            [*prefix, "/bin/sh", "-eu", "-c", code],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    if page.name == "README.md":
        assert "hello" in done.stdout and "a\0b" in done.stdout


@pytest.mark.parametrize(("page", "code"), blocks("console", "yaml", "text"))
def test_commands_that_need_the_outside_exist(page: Path, code: str) -> None:
    """Of commands that need an account, a network or a CI, each of ours exists with the options and files shown."""
    joined = code.replace("\\\n", " ")
    for call in re.findall(r"hermes-env ([a-z-]+[^\n#]*)", joined):
        command, *arguments = shlex.split(call)
        known = {info.name or (info.callback.__name__ if info.callback else "") for info in app.registered_commands}
        assert command in known
        assert all(option in _help(command) for option in arguments if option.startswith("--") and option != "--")
    for path in re.findall(r"\b(?:tests|scripts)/[\w./-]+", joined):
        assert (ROOT / path).exists(), path


def _help(command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_env", command, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    return done.stdout


@pytest.mark.parametrize(("page", "code"), blocks("py"))
def test_python_that_needs_the_outside_is_valid(page: Path, code: str) -> None:
    """An example that needs images or data of the reader's own is at least Python that uses names which exist."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "hermes_env":
            assert all(hasattr(hermes_env, alias.name) for alias in node.names)


@pytest.mark.parametrize(("page", "code"), blocks("toml", "yaml"))
def test_data_is_well_formed(page: Path, code: str) -> None:
    """TOML and YAML parse."""
    try:
        assert tomllib.loads(code)
    except tomllib.TOMLDecodeError:
        assert yaml.safe_load(code)


def test_no_block_is_left_out() -> None:
    """Every block names a language that one of these tests takes up."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        unknown = {match[1] for match in BLOCK.finditer(path.read_text(encoding="utf-8"))} - KNOWN
        assert not unknown, f"{path.name}: {unknown}"


def test_the_ten_line_example_has_ten_lines() -> None:
    """The first example of the README is as short as it claims to be."""
    first = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    assert len([line for line in first[2].splitlines() if line.strip()]) <= 10
