"""`hermes-env conformance`: the suite from the command line, with its four exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import PLUGIN, Run

LAW = ("--law", "test_empty_stdin_is_at_its_end")


@pytest.mark.parametrize("backend", ["local", PLUGIN])
def test_a_law_that_holds(run: Run, tmp_path: Path, backend: str) -> None:
    """Exit code 0, the totals on the last line, and a report where one is asked for."""
    done = run("conformance", backend, *LAW, "--report", str(tmp_path / "report"))
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed, 0 gaps", done.stdout.decode().splitlines()[-1])
    assert list((tmp_path / "report").glob("*.json"))


def test_a_law_that_fails(run: Run, folder: Path) -> None:
    """An environment that loses stdin fails the law that names the fault: exit code 1, and a line that says so."""
    (folder / "cli_lossy.py").write_text(
        "from hermes_env_local import LocalEnvironment\n"
        "class Lossy(LocalEnvironment):\n"
        "    def _argv(self, launch):\n"
        "        return ['/bin/sh', '-c', 'head -c 100 | \"$@\"', 'sh', *super()._argv(launch)]\n"
    )
    done = run("conformance", "cli_lossy:Lossy", "--law", "test_every_size_arrives_on_stdin", "--profile", "quick")
    assert done.returncode == 1
    text = done.stdout.decode()
    assert "failed: test_every_size_arrives_on_stdin" in text
    assert re.fullmatch(r"\d+ passed, [1-9]\d* failed, 0 gaps", text.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("local", "--chapter", "nowhere"), 2),
        (("local", "--law", "nothing"), 2),
        (("local", "--gap", "no-reason"), 2),
        (("nowhere",), 2),
        (("docker", "--option", "image=any", "--option", "host=unix:///nowhere.sock", *LAW), 3),
        ((PLUGIN, "--option", "token=hunter2", *LAW), 2),
    ],
)
def test_what_cannot_be_proven(run: Run, arguments: tuple[str, ...], code: int) -> None:
    """Wrong usage is 2, a backend that cannot be used is 3; nothing claims that a law held."""
    done = run("conformance", *arguments)
    told = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == code, told
    assert "passed" not in told and "hunter2" not in told and "Traceback" not in told
