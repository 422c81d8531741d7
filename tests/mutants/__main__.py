"""``python -m tests.mutants [NAME…]``: print the matrix of mutants and laws."""

from __future__ import annotations

import sys

from ._broken import MUTANTS
from ._matrix import Row, run_matrix, table, unkilled


def main(names: list[str]) -> int:
    """Run all mutants, or those named; 0 when all is as promised."""
    rows = run_matrix([one for one in MUTANTS if not names or one.name in names])
    print(table(rows))
    return 1 if problems(rows, everything=not names) else 0


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
