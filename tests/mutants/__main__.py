"""``python -m tests.mutants [NAME…]``: print the matrix of mutants and laws.

``python -m tests.mutants --write`` writes what ``hermes-env conformance --explain`` knows of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import hermes_env_conformance

from ._broken import MUTANTS
from ._matrix import Row, run_matrix, table, unkilled


def main(names: list[str]) -> int:
    """Run all mutants, or those named; 0 when all is as promised."""
    if names == ["--write"]:
        FAULTS.write_text(known_faults(), encoding="utf-8")
        return 0
    rows = run_matrix([one for one in MUTANTS if not names or one.name in names])
    print(table(rows))
    return 1 if problems(rows, everything=not names) else 0


FAULTS = Path(hermes_env_conformance.__file__).with_name("known_faults.json")


def known_faults() -> str:
    """Every mutant with its kind and the laws that it breaks, as JSON."""
    faults = {
        one.name: {"kind": one.kind, "laws": list(one.breaks)} for one in sorted(MUTANTS, key=lambda one: one.name)
    }
    return json.dumps(faults, indent=1, ensure_ascii=False) + "\n"


def problems(rows: list[Row], *, everything: bool) -> list[str]:
    """What is not as promised; printed as it is found."""
    found = [f"{row.mutant.name} survives {law}" for row in rows for law in row.survived]
    found += [f"{row.mutant.name} is a ruin: {row.mutant.holds} fails too" for row in rows if row.ruined]
    if everything:
        found += [f"no mutant is failed by {law}" for law in unkilled(rows)]
    for line in found:
        print(line)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
