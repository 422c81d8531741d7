"""Measures candidates against a named opponent in one run: shuffled rounds, medians, ratios."""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line of the budget table."""

    what: str
    ours: float
    opponent: float
    unit: str
    budget: float
    against: str

    @property
    def ratio(self) -> float:
        """Ours over the opponent's; for absolute budgets the opponent is 1."""
        return self.ours / self.opponent

    @property
    def held(self) -> bool:
        """Whether the budget holds."""
        return self.ratio <= self.budget


def compare(
    what: str,
    ours: Callable[[], object],
    opponent: Callable[[], object],
    *,
    rounds: int,
    budget: float,
    against: str,
) -> Row:
    """Run both in shuffled order, one warm-up round first; medians in milliseconds."""
    times: dict[Callable[[], object], list[float]] = {ours: [], opponent: []}
    for number in range(rounds + 1):
        order = [ours, opponent]
        random.shuffle(order)
        for run in order:
            start = time.perf_counter()
            run()
            if number:
                times[run].append((time.perf_counter() - start) * 1e3)
    return Row(what, statistics.median(times[ours]), statistics.median(times[opponent]), "ms", budget, against)


def measured(what: str, value: float, unit: str, budget: float) -> Row:
    """A value with an absolute budget."""
    return Row(what, value, 1.0, unit, budget, "absolute")


def report(name: str, rows: Sequence[Row], argv: Sequence[str] = ()) -> int:
    """Print the table, write JSON where ``--json FILE`` says; 0 when every budget held."""
    table = Table(title=f"{name} on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for column in ("what", "ours", "opponent", "ratio", "budget", "held", "against"):
        table.add_column(column)
    for row in rows:
        absolute = row.against == "absolute"
        table.add_row(
            row.what,
            f"{row.ours:.2f} {row.unit}",
            "" if absolute else f"{row.opponent:.2f} {row.unit}",
            "" if absolute else f"{row.ratio:.2f}",
            f"{row.budget:g}{' ' + row.unit if absolute else ' x'}",
            "yes" if row.held else "NO",
            row.against,
        )
    Console(width=150).print(table)
    if "--json" in argv:
        path = argv[list(argv).index("--json") + 1]
        with open(path, "w", encoding="utf-8") as file:
            json.dump([{**asdict(row), "ratio": row.ratio, "held": row.held} for row in rows], file, indent=1)
    held = sum(row.held for row in rows)
    sys.stdout.write(f"{held} budgets held, {len(rows) - held} not\n")
    return 0 if held == len(rows) else 1


def number(argv: Sequence[str], name: str, default: int) -> int:
    """The value of a flag."""
    return int(argv[list(argv).index(name) + 1]) if name in argv else default
