"""`hermes-env probe daytona`: what the service does is found out, not assumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daytona.conftest import LIVE

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(LIVE, reason="the emulator's switches decide what has to be found here")


def probe(folder: Path, *switches: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, facts by name, and everything that was printed."""
    argv = [sys.executable, str(ROOT / "tests/emulators/daytona")]
    argv += [part for switch in switches for part in ("--switch", switch)]
    argv += ["--", sys.executable, "-m", "hermes_env._cli", "probe", "daytona", "--patience", "2"]
    argv += ["--report", str(folder), "--option", "auto_stop=1"]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=ROOT, timeout=300)
    said = done.stdout.decode() + done.stderr.decode()
    (record,) = folder.glob("probe-daytona-*.json")
    facts = {fact["name"]: fact for fact in json.loads(record.read_text())["facts"]}
    return done.returncode, facts, said + record.read_text()


def test_a_service_as_in_the_facts(tmp_path: Path) -> None:
    """Every fact is settled as expected but the one that takes minutes, which says what it needs; no secret is told."""
    code, facts, said = probe(tmp_path)
    unsettled = facts.pop("activity")
    assert {fact["verdict"] for fact in facts.values()} == {"as expected"}, facts
    assert unsettled["verdict"] == "not settled" and "--patience" in unsettled["found"]
    assert code == 1, "not everything is settled"
    assert os.environ.get("DAYTONA_API_KEY", "emulator-key") not in said


def test_another_service_is_noticed(tmp_path: Path) -> None:
    """A service that changed is told apart, fact by fact."""
    code, facts, _ = probe(tmp_path, "shell=dash", "fixed_boundary=false", "upload_mode=384", "output_as_text=false")
    found = {name: fact["found"] for name, fact in facts.items() if fact["verdict"] == "differs"}
    assert code == 1
    assert found["shell"] == "dash" and found["boundary"] == "exact" and found["upload-mode"] == "0600"


def test_a_backend_without_questions_says_so() -> None:
    """A backend whose tests settle everything has nothing to ask."""
    done = subprocess.run(
        [sys.executable, "-m", "hermes_env._cli", "probe", "local"], capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 1 and b"no questions" in done.stderr
