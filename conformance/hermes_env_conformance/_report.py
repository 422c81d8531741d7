"""The report: one JSON document with a published schema, and tables for a terminal."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from . import _documents, _levels
from ._record import Entry, Outcome, Recorder, Subject, versions

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LawReport(_Model):
    """How one law ended."""

    name: str
    chapter: str
    statement: str = Field(description="What the law demands, in one sentence.")
    outcome: Outcome
    message: str = Field(description="Why it failed, the reason of a gap, or the capability that is missing.")
    duration: float = Field(description="Seconds.")


class CapabilityReport(_Model):
    """What was declared beside what was found."""

    name: str
    declared: bool | int | str | None
    observed: bool | int | str | None = Field(description="null where it cannot be found out by trying.")


class LevelReport(_Model):
    """Whether one level was reached."""

    name: str
    meaning: str
    denied_by: list[str] = Field(description="Laws and capabilities that deny it; empty when it was reached.")


class ConformanceReport(_Model):
    """One run of the suite against one backend."""

    schema_version: Literal[1] = 1
    backend: str
    environment: str = Field(description="module:Class of the environment.")
    proven_against: str = Field(description="'live DATE', or the emulator that stood in for the provider.")
    oracle: str
    profile: str
    started: datetime
    duration: float = Field(description="Seconds, all laws together.")
    passed: int
    failed: int
    gaps: int
    not_applicable: int
    versions: dict[str, str]
    system: str | None = Field(description="`uname -srm` inside the environment.")
    user: str | None = Field(description="`id` inside the environment.")
    level: str | None = Field(description="The highest level that was reached.")
    levels: list[LevelReport]
    capabilities: list[CapabilityReport]
    laws: list[LawReport]


def schema() -> dict[str, Any]:
    """The JSON schema of a report."""
    return ConformanceReport.model_json_schema()


def build(recorder: Recorder) -> list[ConformanceReport]:
    """One report for each class of laws that ran."""
    return [_build_one(recorder, name, subject) for name, subject in recorder.subjects.items()]


def _build_one(recorder: Recorder, name: str, subject: Subject) -> ConformanceReport:
    entries = [entry for entry in recorder.entries.values() if entry.suite == name]
    suite: Any = subject.suite
    seen = subject.observed

    def count(outcome: Outcome) -> int:
        return sum(entry.outcome == outcome for entry in entries)

    from ._suite import LAWS

    outcomes = {entry.law.name: entry.outcome for entry in entries}
    verdicts = _levels.judge(outcomes, LAWS.values(), subject.declared)
    return ConformanceReport(
        backend=suite.backend or name,
        environment=subject.environment,
        proven_against=suite.against or f"live {subject.started:%Y-%m-%d}",
        oracle=suite.oracle.name,
        profile=suite.profile,
        started=subject.started,
        duration=round(sum(entry.duration for entry in entries), 3),
        passed=count("passed"),
        failed=count("failed"),
        gaps=count("gap"),
        not_applicable=count("not_applicable"),
        versions=versions(),
        system=seen.system if seen else None,
        user=seen.user if seen else None,
        level=_levels.reached(verdicts),
        levels=[
            LevelReport(name=one.level.name, meaning=one.level.meaning, denied_by=list(one.denied_by))
            for one in verdicts
        ],
        capabilities=_capabilities(subject),
        laws=[_law(entry) for entry in entries],
    )


def _law(entry: Entry) -> LawReport:
    law = entry.law
    return LawReport(
        name=law.name,
        chapter=law.chapter,
        statement=law.statement,
        outcome=entry.outcome,
        message=entry.message,
        duration=round(entry.duration, 3),
    )


def _capabilities(subject: Subject) -> list[CapabilityReport]:
    seen = subject.observed.as_dict() if subject.observed else {}
    names = [*subject.declared, *(name for name in seen if name not in subject.declared)]
    return [
        CapabilityReport(name=name, declared=subject.declared.get(name), observed=seen.get(name))
        for name in names
        if name not in ("system", "user")
    ]


def write(reports: list[ConformanceReport], directory: str) -> list[str]:
    """Write ``<backend>.json``, ``.xml`` (JUnit) and ``.md`` for each report; returns the paths."""
    os.makedirs(directory, exist_ok=True)
    documents = {"conformance.schema.json": json.dumps(schema(), indent=2)}
    for report in reports:
        plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in report.backend)
        documents[f"{plain}.json"] = report.model_dump_json(indent=2)
        documents[f"{plain}.xml"] = _documents.junit(report)
        documents[f"{plain}.md"] = _documents.markdown(report)
    paths = []
    for name, text in documents.items():
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        paths.append(path)
    return paths


def show(report: ConformanceReport, console: Console) -> None:
    """Print failures, gaps, capabilities and one row per chapter."""
    from rich.table import Table
    from rich.text import Text

    for law in report.laws:
        if law.outcome in ("failed", "gap"):
            color = "red" if law.outcome == "failed" else "yellow"
            console.print(Text(f"\n{law.outcome}: {law.name}", style=color))
            console.print(Text(f"  the law: {law.statement}"))
            console.print(Text("  " + law.message.replace("\n", "\n  ")), highlight=False)
    absent = [law for law in report.laws if law.outcome == "not_applicable"]
    if absent:
        console.print("\nnot applicable, and not counted:")
        for law in absent:
            console.print(Text(f"  {law.name}: {law.message}"), highlight=False)
    table = Table(title=f"{report.backend}: declared and observed")
    for column in ("capability", "declared", "observed"):
        table.add_column(column)
    for row in report.capabilities:
        table.add_row(row.name, _cell(row.declared), _cell(row.observed))
    console.print(table)
    console.print(_chapters(report))
    console.print(f"level: {report.level or 'none'}", highlight=False)
    for level in report.levels:
        if level.denied_by:
            more = f" and {len(level.denied_by) - 3} more" if len(level.denied_by) > 3 else ""
            console.print(Text(f"  {level.name} is denied by {'; '.join(level.denied_by[:3])}{more}"))
            break
    console.print(
        f"proven against: {report.proven_against}; oracle: {report.oracle}; profile: {report.profile}; "
        f"inside: {report.system}",
        highlight=False,
    )


def _cell(value: bool | float | str | None) -> str:
    if value is None:
        return "?"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _chapters(report: ConformanceReport) -> Any:
    from rich.table import Table

    table = Table(title=f"{report.backend}: laws by chapter")
    for column in ("chapter", "passed", "failed", "gaps", "not applicable", "seconds"):
        table.add_column(column, justify="left" if column == "chapter" else "right")
    for chapter in dict.fromkeys(law.chapter for law in report.laws):
        laws = [law for law in report.laws if law.chapter == chapter]
        counts = [
            str(sum(law.outcome == outcome for law in laws))
            for outcome in ("passed", "failed", "gap", "not_applicable")
        ]
        table.add_row(chapter, *counts, f"{sum(law.duration for law in laws):.1f}")
    return table


def stamp() -> str:
    """Now, for file names and messages."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
