"""`hermes-env probe vercel`: what the service does is found out, not assumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.clouds import probe
from tests.integration.vercel.conftest import LIVE

pytestmark = pytest.mark.skipif(LIVE, reason="the emulator's switches decide what has to be found here")


def test_a_service_as_in_the_facts(tmp_path: Path) -> None:
    """Every fact is settled as expected."""
    code, facts, _ = probe("vercel", tmp_path)
    assert {name: fact["found"] for name, fact in facts.items() if fact["verdict"] != "as expected"} == {}
    assert code == 0


def test_another_service_is_noticed(tmp_path: Path) -> None:
    """A service that gives the other answers is told apart, fact by fact."""
    switches = ("log_decode=incremental", "wait_for_pipe_end=false", "kill_scope=group", "signal_exit=-1")
    more = ("overwrite=replace", "upload_mode=chmod", "stopped=bare 410")
    code, facts, _ = probe("vercel", tmp_path, (*switches, *more))
    found = {name: fact["found"] for name, fact in facts.items() if fact["verdict"] == "differs"}
    assert code == 1 and found == {
        "overwrite-mode": "0600",
        "overwrite": "another inode",
        "edges": "exact",
        "end": "end of its process",
        "signal-exit": "-1",
        "kill-scope": "group",
        "stopped": "410 without a code",
    }
