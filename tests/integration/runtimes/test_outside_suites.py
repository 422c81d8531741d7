"""What runtimes publish to judge environments, judges the adapters, with the tests that we add to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.slow import slow
from tests.venvs import ROOT, SUITES, python_of

_LIMIT = 1500
"""Seconds for one suite: 30 on an idle machine."""

BACKENDS = ("local", "docker")
CASES = [(runtime, backend) for runtime in SUITES for backend in BACKENDS]

_NO_PROTOCOL = "an optional protocol; the runtime resolves real paths by commands, which another of its tests judges"
SKIPPED = {
    ("pydantic_ai", "local"): {
        "test_native_realpath_keeps_the_working_dir_and_missing_names": _NO_PROTOCOL,
        **({"test_permission_denied_uses_builtin_error": "root"} if os.getuid() == 0 else {}),
    },
    ("pydantic_ai", "docker"): {"test_native_realpath_keeps_the_working_dir_and_missing_names": _NO_PROTOCOL},
}
"""What suites leave out by themselves, and why that is right."""


@dataclass
class Verdict:
    """What pytest said."""

    code: int
    said: str
    report: Path

    def tests(self, file: str) -> dict[str, ET.Element]:
        """Reports of the tests of one file by name."""
        cases = ET.parse(self.report).iter("testcase")
        return {case.attrib["name"]: case for case in cases if file in case.attrib["classname"].split(".")}

    def left_out(self, file: str) -> set[str]:
        """Tests that were skipped, without those that are expected to fail."""
        skipped = {name: case.find("skipped") for name, case in self.tests(file).items()}
        return {name for name, how in skipped.items() if how is not None and how.attrib["type"] != "pytest.xfail"}


@pytest.fixture(scope="module")
def verdict_of(
    variables_of: Callable[[str], dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Verdict]]:
    """Every suite on every backend, two at a time: much of a suite is waiting."""
    folder = tmp_path_factory.mktemp("suites")

    def judge(runtime: str, backend: str) -> Verdict:
        report = folder / f"{runtime}-{backend}.xml"
        command = [python_of(runtime), "-m", "pytest", "-q", "-c", "tests/runtimes/pytest.ini", f"--junit-xml={report}"]
        command += ["-o", "asyncio_mode=auto"] if runtime == "deepagents" else []
        files = [f"tests/runtimes/{kind}_{runtime}.py" for kind in ("suite", "own")]
        done = subprocess.run(
            [*command, *(file for file in files if (ROOT / file).exists())],
            cwd=ROOT,
            env=variables_of(backend),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        return Verdict(done.returncode, done.stdout + done.stderr, report)

    with ThreadPoolExecutor(2) as pool:
        under_way = {case: pool.submit(judge, *case) for case in CASES}

        def ask(*case: str) -> Verdict:
            # Asked again, as for a test that is run once more, the suite runs once more.
            first = under_way.pop((case[0], case[1]), None)
            return judge(*case) if first is None else first.result(timeout=4 * _LIMIT)

        yield ask


@pytest.mark.parametrize(("runtime", "backend"), CASES)
def test_a_runtime_is_content(verdict_of: Callable[..., Verdict], runtime: str, backend: str) -> None:
    """Every test of its suite holds, but for what has a reason in `tests/runtimes/conftest.py`; none is left out."""
    verdict = verdict_of(runtime, backend)
    assert verdict.code == 0, verdict.said
    assert len(verdict.tests(f"suite_{runtime}")) == SUITES[runtime], verdict.said
    assert verdict.left_out(f"suite_{runtime}") == SKIPPED.get((runtime, backend), {}).keys(), verdict.said
    assert not verdict.left_out(f"own_{runtime}"), verdict.said


@slow("takes a minute")
@pytest.mark.parametrize(
    ("runtime", "module"),
    [("inspect_ai", "inspect_ai.py"), ("pydantic_ai", "pydantic_ai"), ("deepagents", "deepagents.py")],
)
def test_types_are_those_of_the_runtime(runtime: str, module: str, tmp_path: Path) -> None:
    """Each adapter is checked strictly against the types of the runtime that it is for."""
    command = [sys.executable, "-m", "mypy", "--python-executable", python_of(runtime), "--strict", "--config-file", ""]
    command += ["--follow-imports", "silent", "--namespace-packages", "--explicit-package-bases"]
    command += ["--cache-dir", str(tmp_path), f"hermes_env/adapters/{module}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
