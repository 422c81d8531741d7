"""`hermes-env probe modal`: what the service does is found out, not assumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.clouds import probe
from tests.integration.modal.conftest import LIVE

pytestmark = pytest.mark.skipif(LIVE, reason="the emulator's switches decide what has to be found here")


def test_a_service_as_in_the_facts(tmp_path: Path) -> None:
    """Every fact is settled as expected."""
    code, facts, _ = probe("modal", tmp_path)
    assert {name: fact["found"] for name, fact in facts.items() if fact["verdict"] != "as expected"} == {}
    assert code == 0


def test_another_service_is_noticed(tmp_path: Path) -> None:
    """A service that gives the other answers is told apart, fact by fact."""
    switches = ("start_failure=code", "wait_for_pipe_end=false", "eof_after_exit=taken")
    code, facts, _ = probe("modal", tmp_path, (*switches, "workdir=/"))
    found = {name: fact["found"] for name, fact in facts.items() if fact["verdict"] == "differs"}
    assert code == 1 and found == {
        "directory": "/",
        "missing-program": "ran, exit code 127",
        "missing-workdir": "ran, exit code 127",
        "late-end": "taken",
        "stream-end": "end of the command",
    }
