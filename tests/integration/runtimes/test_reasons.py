"""A reason why a test of others cannot hold is itself held to be true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.venvs import ROOT

_TESTS = """
def test_holds(): pass
def test_fails(): raise AssertionError
"""
_CONFTEST = """
from tests.runtimes.asked import Reasons

def pytest_collection_modifyitems(items):
    Reasons({always}, local={local}, docker={docker}).mark(items)
"""


@pytest.mark.parametrize(
    ("always", "local", "docker", "code", "said"),
    [
        ({"test_fails": "told"}, {}, {}, 0, "1 passed, 1 xfailed"),
        ({}, {"test_fails": "told"}, {}, 0, "1 passed, 1 xfailed"),
        ({}, {}, {"test_fails": "told"}, 1, "1 failed, 1 passed"),
        ({"test_fails": "told", "test_holds": "no longer"}, {}, {}, 1, "1 failed, 1 xfailed"),
        ({"test_fails": "told", "test_gone": "renamed"}, {}, {}, 4, "not there: test_gone"),
    ],
)
def test_a_reason_must_apply(
    tmp_path: Path, always: dict[str, str], local: dict[str, str], docker: dict[str, str], code: int, said: str
) -> None:
    """It counts on its backend only; one whose test holds, or is gone, is a failure."""
    (tmp_path / "test_theirs.py").write_text(_TESTS)
    (tmp_path / "conftest.py").write_text(_CONFTEST.format(always=always, local=local, docker=docker))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HERMES_ENV_TEST_BACKEND": "local"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code and said in done.stdout + done.stderr, done.stdout + done.stderr
