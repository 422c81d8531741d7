"""Reader of the patch cases: one file holds the files before, the patch, and those after."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_env.tools import (
    Missing,
    PatchParseError,
    Plan,
    Snapshot,
    make_plan,
    parse_patch,
    paths_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_env.tools import Problem, State

_SECTION = re.compile(r"^-- (?P<name>.+?)(?P<open> \(no newline\))? --$")


@dataclass(slots=True)
class Case:
    """One case."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    after: dict[str, bytes] = field(default_factory=dict)
    patch: str = ""
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hunks: list[str] = field(default_factory=list)


def load(path: Path) -> Case:
    """Read a case file; with ``escapes: yes`` the text sections hold Python escapes for bytes."""
    case = Case(path.stem)
    for name, text in _sections(path.read_text("utf-8")):
        if name == "options":
            case.options = dict(line.split(": ", 1) for line in text.splitlines())
        elif name in {"error", "warnings", "hunks"}:
            target = {"error": case.errors, "warnings": case.warnings, "hunks": case.hunks}[name]
            target += text.splitlines()
        elif name == "patch":
            case.patch = _bytes(case, text).decode("utf-8", "surrogateescape")
        else:
            side, _, file = name.partition("/")
            getattr(case, side)[file] = _bytes(case, text)
    return case


def _sections(text: str) -> list[tuple[str, str]]:
    sections: list[tuple[str, str]] = []
    name, open_end, lines = "", False, list[str]()
    for line in [*text.splitlines(keepends=True), "-- end --\n"]:
        found = _SECTION.match(line.rstrip("\n"))
        if found is None:
            lines.append(line)
            continue
        if name:
            body = "".join(lines)
            sections.append((name, body.removesuffix("\n") if open_end else body))
        name, open_end, lines = found["name"], found["open"] is not None, []
    return sections


def _bytes(case: Case, text: str) -> bytes:
    if case.options.get("escapes") != "yes":
        return text.encode()
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")


@dataclass(slots=True)
class Outcome:
    """What became of the files."""

    tree: dict[str, bytes]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    plan: Plan | None


def run(case: Case) -> Outcome:
    """Parse and plan the patch of a case and apply the plan to its files in memory."""
    options = case.options
    try:
        patch = parse_patch(case.patch, lenient=options.get("lenient") == "yes")
    except PatchParseError as error:
        return Outcome(case.before, error.problems, (), None)
    by_name = {_plain(name): Snapshot.of(data, mode=0o640) for name, data in case.before.items()}
    files: dict[str, State] = {path: by_name.get(_plain(path), Missing()) for path in paths_of(patch)}
    plan = make_plan(
        patch,
        files,
        compat=options.get("compat", "default"),  # type: ignore[arg-type] # a bad name fails the case
        overwrite=options.get("overwrite") == "yes",
        idempotent=options.get("idempotent") == "yes",
        encoding=options.get("encoding"),
    )
    return Outcome(apply(case.before, plan), plan.problems, plan.warnings, plan)


def apply(before: dict[str, bytes], plan: Plan) -> dict[str, bytes]:
    """Return the files after a plan."""
    tree = dict(before)
    for change in plan.changes:
        gone = change.source if change.kind == "move" else change.path
        if change.kind in {"move", "delete"} and gone is not None:
            del tree[_plain(gone)]
    for change in plan.changes:
        if change.after is not None:
            tree[_plain(change.path)] = change.after
    return tree


def _plain(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def summary(problem: Problem) -> str:
    """Return a problem in the form of the ``error`` section."""
    parts = [problem.code, problem.path or "-", f"line={problem.patch_line or '-'}"]
    parts.append(f"hunk={problem.hunk or '-'}")
    if problem.candidates:
        parts.append("candidates=" + ",".join(str(c.line) for c in problem.candidates))
    return " ".join(parts)
