"""Shells that a service may have as ``/bin/sh``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SHELLS = {
    "bash": "bash",
    "bash --posix": "bash",
    "dash": "dash",
    "busybox": "busybox",
    "mksh": "mksh",
    "zsh": "zsh",
    "yash": "yash",
}
"""A label, and the program: bash, zsh and yash started by the name ``sh`` behave as POSIX shells."""


def install(folder: Path, label: str) -> str:
    """A shell that is started by the name ``sh``; skips the test where it is not installed."""
    program = shutil.which(SHELLS[label])
    if program is None:
        pytest.skip(f"{label} is not installed")
    folder.mkdir(exist_ok=True)
    sh = folder / "sh"
    if label == "bash --posix":
        sh.write_text(f'#!/bin/sh\nexec {program} --posix "$@"\n')
        sh.chmod(0o755)
    elif not sh.exists():
        sh.symlink_to(program)
    return str(sh)
