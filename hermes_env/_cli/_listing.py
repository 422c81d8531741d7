"""`hermes-env backends`: the installed backends, as a table or as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from hermes_env._registry import BackendInfo


def show_table(backends: list[BackendInfo]) -> None:
    """Print one row per backend."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("backend", "stdin", "isolation", "kill", "available"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "backend")
    for info in backends:
        can = info.capabilities
        facts = (can.isolation, can.kill_scope) if can else ("-", "-")
        mode = info.stdin_mode.value if info.stdin_mode else "-"
        table.add_row(*(Text(cell) for cell in (info.name, mode, *facts, _availability(info))))
    Console(file=sys.stdout, highlight=False).print(table)


def _availability(info: BackendInfo) -> str:
    if info.available:
        return "yes"
    hint = f" ({info.install})" if info.install else ""
    return f"no: {info.reason}{hint}"


def show_json(backends: list[BackendInfo]) -> None:
    """Print a JSON array with every fact that is known."""
    sys.stdout.write(json.dumps([_plain(info) for info in backends], indent=2) + "\n")


def _plain(info: BackendInfo) -> dict[str, Any]:
    mode = info.stdin_mode.value if info.stdin_mode else None
    capabilities = dataclasses.asdict(info.capabilities) if info.capabilities else None
    return {**_fields(info), "stdin_mode": mode, "capabilities": capabilities}


def _fields(info: BackendInfo) -> dict[str, Any]:
    return {field.name: getattr(info, field.name) for field in dataclasses.fields(info)}
