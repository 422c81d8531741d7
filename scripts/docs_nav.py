"""Puts every page that the navigation does not name under "Backends": a backend brings its page, and that is all."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Called by mkdocs before it looks at the navigation."""
    named = set(_pages(config.nav))
    found = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in named)
    for entry in config.nav:
        if "Backends" in entry:
            entry["Backends"] = found
    return config


def _pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    values = entry.values() if isinstance(entry, dict) else entry
    return [page for value in values for page in _pages(value)]
