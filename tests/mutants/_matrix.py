"""Runs every mutant through the laws that must fail it, and tells what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_env_conformance import LAWS, run

from . import (
    aio_faults,
    cancel_faults,
    files_faults,
    life_faults,
    names_faults,
    output_faults,
    process_faults,
    session_faults,
    stdin_faults,
    tools_faults,
    trees_faults,
)
from ._broken import MUTANTS, Mutant

_FAULTS = (
    stdin_faults,
    output_faults,
    process_faults,
    session_faults,
    life_faults,
    files_faults,
    names_faults,
    cancel_faults,
    aio_faults,
    trees_faults,
    tools_faults,
)
PATIENCE = 4.0
"""Seconds: every law that does not hang holds well within them; a mutant that hangs costs twice as many."""
_AT_ONCE = 2
_WHY = 110
"""Characters of a failure that the table shows."""
_DEADLINE = 150.0
"""Seconds for one mutant."""


@dataclass
class Row:
    """What came of one mutant."""

    mutant: Mutant
    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    output: str = ""

    @property
    def survived(self) -> list[str]:
        """Laws that should have failed it and did not."""
        return [law for law in self.mutant.breaks if self.outcomes.get(law) != "failed"]

    @property
    def ruined(self) -> bool:
        """The law that should hold does not."""
        return self.outcomes.get(self.mutant.holds) != "passed"


def run_matrix(mutants: Sequence[Mutant] = MUTANTS) -> list[Row]:
    """Run mutants, two at a time, each in a process of its own: some hang or leave threads behind."""
    with tempfile.TemporaryDirectory() as scratch:
        running: dict[int, float] = {}
        for mutant in mutants:
            _wait_for_room(running, _AT_ONCE - 1)
            place = os.path.join(scratch, mutant.name)
            os.mkdir(place)
            print(f"{mutant.name}: {mutant.kind}", file=sys.stderr, flush=True)
            running[_fork(mutant, place)] = time.monotonic() + _DEADLINE
        _wait_for_room(running, 0)
        return [_read(mutant, os.path.join(scratch, mutant.name)) for mutant in mutants]


def _wait_for_room(running: dict[int, float], room: int) -> None:
    """Wait until no more than `room` mutants run; one over its deadline is killed, and has no outcome."""
    while len(running) > room:
        for pid, deadline in list(running.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del running[pid]
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _fork(mutant: Mutant, place: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    with contextlib.suppress(BaseException), open(os.path.join(place, "output"), "w", encoding="utf-8") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        elsewhere = os.path.join(place, "elsewhere")
        os.mkdir(elsewhere)
        os.chdir(elsewhere)  # Not where the laws work: relative paths of the caller must lead elsewhere.
        laws = (*mutant.breaks, mutant.holds)
        options = {"root": place} if mutant.rooted else {}
        code = run(
            mutant.path,
            options=options,
            profile="quick",
            laws=laws,
            patience=PATIENCE,
            workspace=place,
            report=place,
            stream=out,
        )
    os._exit(code)


def _read(mutant: Mutant, place: str) -> Row:
    row = Row(mutant)
    with open(os.path.join(place, "output"), encoding="utf-8", errors="replace") as file:
        row.output = file.read()
    reports = [name for name in os.listdir(place) if name.endswith(".json") and "schema" not in name]
    for name in reports:
        with open(os.path.join(place, name), encoding="utf-8") as file:
            for law in json.load(file)["laws"]:
                row.outcomes[law["name"]] = law["outcome"]
                row.messages[law["name"]] = law["message"]
    return row


def unkilled(rows: Sequence[Row]) -> list[str]:
    """Laws that no mutant was failed by."""
    killers = {law for row in rows for law, outcome in row.outcomes.items() if outcome == "failed"}
    return [name for name in LAWS if name not in killers]


def table(rows: Sequence[Row]) -> str:
    """The matrix as lines: mutant, kind of fault, laws that failed it."""
    lines = []
    for row in rows:
        lines.append(f"{row.mutant.name}: {row.mutant.kind}")
        for law, outcome in row.outcomes.items():
            why = row.messages[law].replace("\n", " | ")[:_WHY] if outcome == "failed" else ""
            lines.append(f"    {'failed by' if outcome == 'failed' else outcome:<9} {law}  {why}".rstrip())
        if not row.outcomes:
            lines.append(f"    no outcome; its output ends: {row.output[-500:]!r}")
    killed = sum(not row.survived and not row.ruined for row in rows)
    lines.append(f"{killed} of {len(rows)} mutants killed as promised, {len(unkilled(rows))} laws without a mutant")
    return "\n".join(lines)
