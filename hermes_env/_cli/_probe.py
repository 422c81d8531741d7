"""`hermes-env probe`: asks a live provider what its backend was built on, and keeps a dated record."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hermes_env import _probe
from hermes_env._errors import Unsupported

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment


def examine(env: BaseEnvironment, name: str, folder: str | None, patience: float) -> int:
    """Settle every question of the backend; 0 when all are as expected, else 1.

    Raises:
        Unsupported: The backend asks nothing.
    """
    probes = env.probes(patience)
    if not probes:
        raise Unsupported(f"{name} has no questions about its provider: everything was settled by its tests")
    console = Console(file=sys.stderr, highlight=False)
    made = _probe.record(
        name, probes, env.sdk_packages, lambda fact: console.print(Text(f"{fact.name}: {fact.verdict}"))
    )
    Console(file=sys.stdout, highlight=False).print(_table(made))
    if folder is not None:
        sys.stdout.write(f"written: {write(made, folder)}\n")
    return 0 if made.agrees else 1


def _table(made: _probe.Record) -> Table:
    versions = ", ".join(f"{package} {version}" for package, version in made.versions.items())
    table = Table(title=f"{made.backend}, {made.asked} ({versions})")
    for column in ("fact", "expected", "found", "verdict"):
        table.add_column(column, overflow="fold")
    for fact in made.facts:
        table.add_row(*map(Text, (fact.name, fact.expected, fact.found, fact.verdict)))
    return table


def write(made: _probe.Record, folder: str) -> str:
    """Write the record as JSON, named by backend and day; returns its path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"probe-{made.backend.replace(':', '.')}-{made.asked[:10]}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(made), file, indent=1, ensure_ascii=False)
        file.write("\n")
    return path
