"""`hermes-env probe modal`: what the service does is found out, not assumed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.modal.conftest import LIVE

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(LIVE, reason="the emulator's switches decide what has to be found here")


def probe(folder: Path, *switches: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and facts by name."""
    argv = [sys.executable, str(ROOT / "tests/emulators/modal")]
    argv += [part for switch in switches for part in ("--switch", switch)]
    argv += ["--", sys.executable, "-m", "hermes_env._cli", "probe", "modal", "--patience", "2"]
    argv += ["--report", str(folder)]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=ROOT, timeout=300)
    (record,) = folder.glob("probe-modal-*.json")
    return done.returncode, {fact["name"]: fact for fact in json.loads(record.read_text())["facts"]}


def test_a_service_as_in_the_facts(tmp_path: Path) -> None:
    """Every fact is settled as expected."""
    code, facts = probe(tmp_path)
    assert {name: fact["found"] for name, fact in facts.items() if fact["verdict"] != "as expected"} == {}
    assert code == 0


def test_another_service_is_noticed(tmp_path: Path) -> None:
    """A service that gives the other answers is told apart, fact by fact."""
    switches = ("start_failure=code", "wait_for_pipe_end=false", "eof_after_exit=taken")
    code, facts = probe(tmp_path, *switches, "workdir=/")
    found = {name: fact["found"] for name, fact in facts.items() if fact["verdict"] == "differs"}
    assert code == 1 and found == {
        "directory": "/",
        "missing-program": "ran, exit code 127",
        "missing-workdir": "ran, exit code 127",
        "late-end": "taken",
        "stream-end": "end of the command",
    }
