"""The pages of agent runtimes say the versions and numbers with which the adapters are tested."""

from __future__ import annotations

import re

import pytest

from tests.venvs import ROOT, SUITES


@pytest.mark.parametrize("runtime", SUITES)
def test_a_page_tells_what_is_tested(runtime: str) -> None:
    """Each version on the page of a runtime is one that its venv holds, and each number of tests that of its suite."""
    page = (ROOT / f"docs/runtime-{runtime.replace('_', '-')}.md").read_text(encoding="utf-8")
    pinned = (ROOT / f"tests/runtimes/{runtime}.txt").read_text(encoding="utf-8")
    versions = set(re.findall(r"^[\w-]+==([\w.]+)", pinned, re.MULTILINE))
    assert set(re.findall(r"\b\d+\.\d+\.\d+\b", page)) <= versions
    assert set(map(int, re.findall(r"\b(\d+) tests\b", page))) <= {SUITES[runtime]}
