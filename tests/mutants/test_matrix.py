"""Every mutant is failed by the laws that were made for it, and every law is failed by a mutant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes_env_conformance import LAWS

from . import _matrix
from .__main__ import FAULTS, known_faults
from ._broken import MUTANTS


@pytest.mark.slow
def test_every_mutant_and_every_law_is_needed() -> None:
    """The matrix is complete both ways, and every mutant still keeps a law that its fault does not touch."""
    command = [sys.executable, "-m", "tests.mutants"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_what_is_told_of_the_mutants_is_current() -> None:
    """The file from which laws are explained is what `python -m tests.mutants --write` makes."""
    assert FAULTS.read_text(encoding="utf-8") == known_faults()


def test_mutants_are_distinct() -> None:
    """No two mutants claim the same kind of fault or name, and each names laws that exist."""
    assert len({one.kind for one in MUTANTS}) == len({one.name for one in MUTANTS}) == len(MUTANTS)
    for one in MUTANTS:
        assert one.breaks
        assert set(one.breaks) | {one.holds} <= set(LAWS)
    assert set(LAWS) == {law for one in MUTANTS for law in one.breaks}, _matrix.PATIENCE
