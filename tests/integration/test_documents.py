"""What the documents show is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[object]:
    """Code blocks of one language in the documents at the top, each with its place as test id."""
    found: list[object] = []
    for path in sorted(ROOT.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match[1] == language:
                line = text[: match.start()].count("\n") + 1
                found.append(pytest.param(match[2], id=f"{path.name}:{line}"))
    return found


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_run(code: str, tmp_path: Path) -> None:
    """Each Python example runs to its end, with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", blocks("sh"))
def test_shell_examples_run(code: str, tmp_path: Path) -> None:
    """Shell examples run in an empty folder; of those that would build or check the project, the parts must exist."""
    if commands := re.findall(r"^make (\w+)", code, re.MULTILINE):
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(commands) <= set(targets)
        return
    if ".venv/bin/" in code:
        programs = re.findall(r"\.venv/bin/(\w+)", code)
        assert programs and all((Path(sys.executable).parent / program).exists() for program in programs)
        return
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", code],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout and "a\0b" in done.stdout


def test_the_ten_line_example_has_ten_lines() -> None:
    """The first example of the README is as short as it claims to be."""
    first = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    assert len([line for line in first[2].splitlines() if line.strip()]) <= 10
