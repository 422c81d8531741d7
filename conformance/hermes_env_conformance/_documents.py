"""Reports for other programs and for people: JUnit and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from ._report import ConformanceReport, LawReport

_WORDS = {"passed": "held", "failed": "**failed**", "gap": "gap", "not_applicable": "not applicable"}


def junit(report: ConformanceReport) -> str:
    """JUnit XML: one suite per chapter, one case per law; a gap and a law that does not apply are skipped."""
    root = ET.Element("testsuites", name=f"conformance of {report.backend}", time=f"{report.duration:.3f}")
    for chapter in dict.fromkeys(law.chapter for law in report.laws):
        laws = [law for law in report.laws if law.chapter == chapter]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=chapter,
            tests=str(len(laws)),
            failures=str(sum(law.outcome == "failed" for law in laws)),
            errors="0",
            skipped=str(sum(law.outcome in ("gap", "not_applicable") for law in laws)),
            time=f"{sum(law.duration for law in laws):.3f}",
            timestamp=report.started.isoformat(timespec="seconds"),
        )
        for law in laws:
            _case(suite, report.backend, law)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode")


def _case(suite: ET.Element, backend: str, law: LawReport) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=f"{backend}.{law.chapter}", name=law.name, time=f"{law.duration:.3f}"
    )
    text = _xml_text(law.message)
    if law.outcome == "failed":
        ET.SubElement(case, "failure", message=law.statement).text = text
    elif law.outcome != "passed":
        ET.SubElement(case, "skipped", message=text)


def _xml_text(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(
        c if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe") else "\ufffd" for c in text
    )


def markdown(report: ConformanceReport) -> str:
    """A page for people: verdict, levels, capabilities and every law."""
    lines = [
        f"# Conformance of `{report.backend}`",
        "",
        f"{report.passed} passed, {report.failed} failed, {report.gaps} gaps, {report.not_applicable} not applicable.",
        f"Level: **{report.level or 'none'}**. Proven against: {report.proven_against}.",
        f"Profile: {report.profile}. Oracle: {report.oracle}.",
        "",
        "| level | means | reached |",
        "|---|---|---|",
    ]
    lines += [f"| {one.name} | {one.meaning} | {_denial(one.denied_by)} |" for one in report.levels]
    lines += ["", "| capability | declared | observed |", "|---|---|---|"]
    lines += [f"| {row.name} | {_value(row.declared)} | {_value(row.observed)} |" for row in report.capabilities]
    for chapter in dict.fromkeys(law.chapter for law in report.laws):
        lines += ["", f"## {chapter}", "", "| law | outcome | seconds |", "|---|---|--:|"]
        lines += [
            f"| {_cell(law.statement)}<br>`{law.name}` | {_WORDS[law.outcome]}{_note(law)} | {law.duration:.2f} |"
            for law in report.laws
            if law.chapter == chapter
        ]
    names = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return "\n".join([*lines, "", f"{report.started:%Y-%m-%d %H:%M} UTC, {report.duration:.1f} s. {names}."])


def _denial(denied_by: list[str]) -> str:
    if not denied_by:
        return "yes"
    more = f" and {len(denied_by) - 3} more" if len(denied_by) > 3 else ""
    return _cell(f"no: {'; '.join(denied_by[:3])}{more}")


def _note(law: LawReport) -> str:
    return f": {_cell(law.message.splitlines()[0][:200])}" if law.outcome != "passed" and law.message else ""


def _value(value: object) -> str:
    return (
        "?"
        if value is None
        else {True: "yes", False: "no"}.get(value, str(value))
        if isinstance(value, bool)
        else str(value)
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
