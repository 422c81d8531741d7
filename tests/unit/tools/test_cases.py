"""Every patch case: the files after it, or the errors and no change at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_env.tools import parse_patch
from tests.unit.tools._cases import Case, load, run, summary

_FOLDER = Path(__file__).parent / "cases"
_CASES = [load(path) for path in sorted(_FOLDER.glob("*.txt"))]


def test_there_are_cases() -> None:
    """The folder is found, so an empty run cannot pass."""
    assert len(_CASES) > 50


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    """The patch gives exactly the files, errors, warnings and hunk places that the case states."""
    outcome = run(case)
    assert [summary(problem) for problem in outcome.problems] == case.errors
    expected = case.before if case.errors and case.options.get("partial") != "yes" else case.after
    assert outcome.tree == expected
    for wanted in case.warnings:
        assert any(wanted in warning for warning in outcome.warnings), outcome.warnings
    if case.hunks:
        assert outcome.plan is not None
        reports = [report for change in outcome.plan.changes for report in change.hunks]
        assert [f"{r.tier} -{r.old_start},{r.old_lines} +{r.new_start},{r.new_lines}" for r in reports] == case.hunks


@pytest.mark.parametrize("case", [case for case in _CASES if not case.errors], ids=lambda case: case.name)
def test_rendered_patch_is_the_same_patch(case: Case) -> None:
    """A patch in canonical spelling does what the original did, and renders to itself."""
    lenient = case.options.get("lenient") == "yes"
    rendered = parse_patch(case.patch, lenient=lenient).render()
    assert parse_patch(rendered, lenient=lenient).render() == rendered
    case = Case(case.name, case.options, case.before, case.after, rendered, case.errors)
    assert run(case).tree == case.after
