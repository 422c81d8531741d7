"""`hermes-env probe daytona`: what the service does is found out, not assumed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.clouds import ROOT, probe
from tests.integration.daytona.conftest import LIVE

IDLE = ("--option", "auto_stop=1")

pytestmark = pytest.mark.skipif(LIVE, reason="the emulator's switches decide what has to be found here")


def test_a_service_as_in_the_facts(tmp_path: Path) -> None:
    """Every fact is settled as expected but the one that takes minutes, which says what it needs; no secret is told."""
    code, facts, said = probe("daytona", tmp_path, options=IDLE)
    unsettled = facts.pop("activity")
    assert {fact["verdict"] for fact in facts.values()} == {"as expected"}, facts
    assert unsettled["verdict"] == "not settled" and "--patience" in unsettled["found"]
    assert code == 1, "not everything is settled"
    assert os.environ.get("DAYTONA_API_KEY", "emulator-key") not in said


def test_another_service_is_noticed(tmp_path: Path) -> None:
    """A service that changed is told apart, fact by fact."""
    switches = ("shell=dash", "fixed_boundary=false", "upload_mode=384", "output_as_text=false")
    code, facts, _ = probe("daytona", tmp_path, switches, IDLE)
    found = {name: fact["found"] for name, fact in facts.items() if fact["verdict"] == "differs"}
    assert code == 1
    assert found["shell"] == "dash" and found["boundary"] == "exact" and found["upload-mode"] == "0600"


def test_a_backend_without_questions_says_so() -> None:
    """A backend whose tests settle everything has nothing to ask."""
    done = subprocess.run(
        [sys.executable, "-m", "hermes_env._cli", "probe", "local"], capture_output=True, check=False, cwd=ROOT
    )
    assert done.returncode == 1 and b"no questions" in done.stderr
