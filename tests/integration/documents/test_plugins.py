"""Plugins as their users have them: installed into a venv, found by their entry point, judged by the suite."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `hermes-env new-backend` writes it."""
    folder = tmp_path_factory.mktemp("generated") / "project"
    command = [sys.executable, "-m", "hermes_env", "new-backend", "my_box", "--dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example of the documents: building leaves nothing in our own tree."""
    folder = tmp_path_factory.mktemp("example") / "project"
    shutil.copytree(ROOT / "tests/plugin_example", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, generated: Path, example: Path) -> Python:
    """The Python of one venv with both plugins, which sees what is installed here but not this folder's files."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    program = folder / "bin/python"
    # Such a line of a .pth file is run, so that the .pth files there, of editable installations, count too.
    paths = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages,) = folder.glob("lib/python3*/site-packages")
    packages.joinpath("outer.pth").write_text(paths)

    def run(*arguments: str, cwd: Path = folder) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            cwd=cwd,
            env={key: value for key, value in os.environ.items() if not key.startswith(("HERMES_ENV_", "PYTEST_"))},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    done = run("-m", "pip", "install", *options, str(generated), str(example))
    assert done.returncode == 0, done.stderr
    return run


def test_installed_plugins_are_found(python: Python) -> None:
    """Both are listed as available, and usable by name."""
    done = python("-m", "hermes_env", "backends", "--json")
    assert '"name": "example"' in done.stdout and '"name": "my_box"' in done.stdout
    assert python("-m", "hermes_env", "exec", "my_box", "--", "echo", "hello").stdout == "hello\n"


@pytest.mark.parametrize("project", ["generated", "example"])
def test_a_plugin_keeps_every_law(python: Python, request: pytest.FixtureRequest, project: str) -> None:
    """Its own test, which is the conformance suite, passes without a gap; a new project does so at once."""
    folder: Path = request.getfixturevalue(project)
    shutil.rmtree(next(folder.glob("hermes_env_*")))  # What is installed is judged.
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith("passed, 0 failed, 0 gaps"), done.stdout


def test_twenty_lines_around_a_tool_keep_the_laws_of_bytes(tmp_path: Path) -> None:
    """The bubblewrap example of the documents, used as `module:Class`, carries every byte in and out.

    Its exit code of a command that a signal killed is 1 now and then instead of 137: that is the tool's own.
    """
    if reason := _no_bubble():
        pytest.skip(reason)
    source = (ROOT / "tests/backends/bubble.py").read_text(encoding="utf-8")
    assert len(source.partition("class ")[2].splitlines()) <= 20
    (tmp_path / "bubble.py").write_text(source)
    command = [sys.executable, "-m", "hermes_env", "conformance", "bubble:Bubble", "--profile", "quick"]
    command += ["--chapter", "stdin", "--chapter", "output", "--chapter", "files"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith("passed, 0 failed, 0 gaps")


def _no_bubble() -> str | None:
    """Why bubblewrap cannot be used here."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed"
    done = subprocess.run(
        [program, "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-net", "true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return f"namespaces are forbidden here: {done.stderr.strip()}" if done.returncode else None
