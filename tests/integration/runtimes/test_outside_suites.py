"""What runtimes publish to judge environments, judges the adapters: every backend's adapter is the same code."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.venvs import ROOT, python_of

_LIMIT = 1500
"""Seconds for one suite: 30 on an idle machine."""

SUITES = {
    "inspect_ai": 44,
    "pydantic_ai": 40,
    "deepagents": 86,
    "hermes_agent": 11,
}
"""Tests of each suite, in the version of `tests/runtimes`: fewer would be a suite that was not found."""
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
    """What a suite said."""

    code: int
    said: str
    report: Path

    def names(self, outcome: str | None = None) -> set[str]:
        """Tests with an outcome: ``skipped``, ``failure``, ``error``; all of them without one."""
        cases = ET.parse(self.report).iter("testcase")
        return {case.attrib["name"] for case in cases if outcome is None or case.find(outcome) is not None}

    def left_out(self) -> set[str]:
        """Tests that were skipped, without those that are expected to fail."""
        root = ET.parse(self.report)
        skipped = {case.attrib["name"]: case.find("skipped") for case in root.iter("testcase")}
        return {name for name, how in skipped.items() if how is not None and how.attrib["type"] != "pytest.xfail"}


@pytest.fixture(scope="module")
def verdicts(
    variables_of: Callable[[str], dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str], Future[Verdict]]]:
    """Every suite on every backend, two at a time: much of a suite is waiting."""
    folder = tmp_path_factory.mktemp("suites")

    def judge(runtime: str, backend: str) -> Verdict:
        report = folder / f"{runtime}-{backend}.xml"
        command = [python_of(runtime), "-m", "pytest", "-q", "-c", "tests/runtimes/pytest.ini", f"--junit-xml={report}"]
        command += ["-o", "asyncio_mode=auto"] if runtime == "deepagents" else []
        done = subprocess.run(
            [*command, f"tests/runtimes/suite_{runtime}.py"],
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
        yield {case: pool.submit(judge, *case) for case in CASES}


@pytest.mark.parametrize(("runtime", "backend"), CASES)
def test_a_runtime_is_content(verdicts: dict[tuple[str, str], Future[Verdict]], runtime: str, backend: str) -> None:
    """Every test of its suite holds, but for what has a reason in `tests/runtimes/conftest.py`; none is left out."""
    verdict = verdicts[runtime, backend].result(timeout=3 * _LIMIT)
    assert verdict.code == 0, verdict.said
    assert len(verdict.names()) == SUITES[runtime], verdict.said
    assert verdict.left_out() == SKIPPED.get((runtime, backend), {}).keys(), verdict.said
