"""Blocks that name hosts, accounts and registries of the outside are run too, against stand-ins that really work.

What stands in is in `STAND_INS`: a pattern, what it becomes, and why. Everything else of a command runs as it is shown.
"""

from __future__ import annotations

import ast
import contextlib
import getpass
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import engine as engines
from tests import images, sshd
from tests.venvs import python_of

from .test_blocks import BLOCK, EMULATED, ROOT, RUNTIMES, blocks

MARK = "--hermes-env-example--"
SHORT = "--profile quick --law test_exit_codes_come_back"
PIP = f"{sys.executable} -m pip install --dry-run --quiet --no-index --no-build-isolation"
STAND_INS: tuple[tuple[str, str, str], ...] = (
    (
        r"^pip install 'hermes-env\[(inspect|pydantic-ai|deepagents)\]'",
        "true",
        "scripts/runtimes.sh installs just that, each into a venv of its own",
    ),
    (r"^pip install 'hermes-env\[([\w,-]+)\]'", rf"{PIP} '{ROOT}[\1]'", "not published: this project, with that extra"),
    (r"^pip install -e '\.\[([\w,]+)\]'", rf"{PIP} '{ROOT}[\1]'", "the tests' own installation stays as it is"),
    (r"^(hermes-env conformance \S+.*)", rf"\1 {SHORT}", "whole runs are tests/integration/*/test_conformance.py"),
    (r"^(python tests/emulators/(\w+) -- hermes-env conformance \2)", rf"\1 {SHORT} ", "the same"),
    (
        r"((?:^|\s)(?:python -m )?pytest )",
        r"\1--collect-only ",
        "these tests run by themselves; live ones need an account",
    ),
    (r"^(hermes-env mcp .*--http .*)", r"timeout 8 \1 || [ $? = 124 ]", "it serves until it is told to end"),
    (r"(MODAL_TOKEN_\w+)=a[ks]-…", r'\1="$\1"', "the token of the emulator"),
    (r"(VERCEL_\w+)=(?:team_|prj_)?…", r'\1="$\1"', "the token of the emulator, its team and project"),
    (r"DAYTONA_API_KEY=(?:dtn_)?…", 'DAYTONA_API_KEY="$DAYTONA_API_KEY"', "the key of the emulator"),
    (r"^sudo apt-get install -y", "apt-get install --simulate", "a test installs nothing on its machine"),
    (r"=(ci_key|ci_known_hosts)\b", r'="$FILES"/\1', "the key files of the reader's CI"),
    (r"--option user=ci", f"--option user={getpass.getuser()}", "an account that is there"),
)
NOT_OURS = "steps that `uses:` an action are the CI provider's own programs"


def commands_of(page: Path, language: str, code: str) -> list[tuple[str, str]]:
    """Every command of a block with the output that is shown for it."""
    if language == "yaml":
        return [(line, "") for line in _scripts(yaml.safe_load(code))]
    if language == "text":
        return [(line, "") for line in code.splitlines() if line.startswith("hermes-env ")]
    found: list[tuple[str, str]] = []
    for line in code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((re.sub(r"\s+# .*", "", line[2:]), ""))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def _scripts(node: Any) -> Iterator[str]:
    """The `run:` and `script:` lines of a workflow."""
    if isinstance(node, list):
        for item in node:
            yield from _scripts(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script"):
                lines = value if isinstance(value, list) else value.replace("\\\n", " ").strip().splitlines()
                yield from (" ".join(line.split()) for line in lines)
            else:
                yield from _scripts(value)


def stood_in(command: str) -> str:
    """The command as it can run here."""
    for pattern, replacement, _ in STAND_INS:
        command = re.sub(pattern, replacement, command)
    return command


@contextlib.contextmanager
def outside(page: Path, folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """What a page's commands talk to: a command to run them under, and their environment."""
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin",
        "XDG_STATE_HOME": str(folder / "state"),
        "FILES": str(folder),
    }
    with contextlib.ExitStack() as stack:
        if page.name in EMULATED:
            yield EMULATED[page.name], variables
        elif page.name == "docker.md":
            yield [], {**variables, **stack.enter_context(_engine())}
        elif page.name == "ssh.md":
            yield [], {**variables, **stack.enter_context(_host(folder))}
        else:
            yield [], {**variables, "PYTHONPATH": str(ROOT / "tests/backends")}


@contextlib.contextmanager
def _engine() -> Iterator[dict[str, str]]:
    """A Docker engine that has, by the name that the page uses, the Debian image of the tests, or busybox."""
    try:
        with engines.engine() as engine:
            if engine.cli("image", "inspect", "debian:12-slim").returncode == 0:
                yield engine.variables
                return
            image = engines.IMAGE
            if images.is_cached(engine):
                images.ensure_debian(engine)
                image = images.DEBIAN
            assert engine.cli("tag", image, "debian:12-slim").returncode == 0
            try:
                yield engine.variables
            finally:
                engine.cli("rmi", "--no-prune", "debian:12-slim")
    except engines.EngineUnavailable as error:
        pytest.skip(f"no Docker engine: {error}")


@contextlib.contextmanager
def _host(folder: Path) -> Iterator[dict[str, str]]:
    """A server by the names that the page uses, and the key files of the page in the current directory."""
    if reason := sshd.missing():
        pytest.skip(reason)
    place = folder / "server"
    place.mkdir()
    with sshd.running(sshd.Sshd(place)) as server:
        options = server.options()
        shutil.copy(options["key_file"], folder / "ci_key")
        shutil.copy(options["known_hosts"], folder / "ci_known_hosts")
        config = folder / "ssh_config"
        config.write_text(
            f"Host build\n  IdentityFile {options['key_file']}\n  UserKnownHostsFile {options['known_hosts']}\n"
            f"Host build sandbox.internal\n  HostName {options['host']}\n  Port {options['port']}\n"
        )
        yield {"HERMES_ENV_SSH_CONFIG": str(config)}


def run(page: Path, script: str, folder: Path) -> str:
    """Run the commands of one block in one shell, in an empty folder unless they are about this project's files."""
    place = ROOT if re.search(r"\btests/|\.\[dev", script) else folder
    with outside(page, folder) as (prefix, variables):
        done = subprocess.run(
            [*prefix, "/bin/sh", "-eu", "-c", script],
            cwd=place,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def _of(*languages: str) -> list[Any]:
    found = []
    for language in languages:
        for case in blocks(language):
            page, code = case.values  # type: ignore[attr-defined]
            if commands_of(page, language, code):
                found.append(pytest.param(page, language, code, id=case.id))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(("page", "language", "code"), _of("console", "yaml", "text"))
def test_commands_run_and_say_what_is_shown(page: Path, language: str, code: str, tmp_path: Path) -> None:
    """Every command of the block exits with 0 and prints what the page shows; `…` stands for anything."""
    commands = [
        (command, shown)
        for command, shown in commands_of(page, language, code)
        if not (command.startswith("sudo apt-get") and shutil.which("apt-get") is None)
    ]
    if any("bubble" in command for command, _ in commands) and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    script = "".join(f"echo {MARK}\n{stood_in(command)}\n" for command, _ in commands)
    outputs = run(page, script, tmp_path).split(f"{MARK}\n")[1:]
    assert len(outputs) == len(commands)
    for (command, shown), output in zip(commands, outputs, strict=True):
        assert "does not provide the extra" not in output, command
        pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
        assert not shown or re.fullmatch(pattern, output.strip(), re.DOTALL), (command, output)


def _fragments(*, of_runtimes: bool) -> list[Any]:
    return [case for case in blocks("py") if (case.values[0].name in RUNTIMES) == of_runtimes]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("page", "code"), _fragments(of_runtimes=True))
def test_fragments_of_runtimes_use_names_that_exist(page: Path, code: str) -> None:
    """A fragment is Python, and what it imports is there; the page's example is run whole."""
    tree = compile(code, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    done = subprocess.run(
        [python_of(RUNTIMES[page.name]), "-c", "\n".join(imports)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "code"), _fragments(of_runtimes=False))
def test_python_that_needs_the_outside_runs(page: Path, code: str, tmp_path: Path) -> None:
    """An example with an image and data of the reader's own runs against an engine that has such an image."""
    (tmp_path / "example.py").write_text(f'data = b"{{}}"\n{code}')
    assert "config.json" in run(page, f"{sys.executable} -W error example.py", tmp_path)


def test_every_stand_in_is_needed() -> None:
    """Each stand-in is for a command that some page shows, and says why."""
    shown = [
        command
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for match in BLOCK.finditer(path.read_text(encoding="utf-8"))
        if match[1] in ("console", "yaml", "text")
        for command, _ in commands_of(path, match[1], match[2])
    ]
    for pattern, _, why in STAND_INS:
        assert why
        assert any(re.search(pattern, command) for command in shown), pattern
