"""Levels: what a backend may be called after a run, and what denies it the next one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._law import Law


@dataclass(frozen=True, slots=True)
class Level:
    """A set of chapters that must hold, and of capabilities that must be declared, on top of the level below."""

    name: str
    meaning: str
    chapters: tuple[str, ...]
    gates: Mapping[str, object]


LEVELS: tuple[Level, ...] = (
    Level("commands", "commands run exactly as asked", ("stdin", "output", "process", "lifecycle"), {}),
    Level("files", "and file bytes are verified", ("files",), {}),
    Level("private", "and nobody sees what travels", ("secrecy",), {}),
    Level(
        "cancellable", "and a kill ends one command, whatever goes wrong", ("cancellation",), {"kill_scope": "command"}
    ),
    Level(
        "complete",
        "and streams are apart, sessions last and all names are awaitable",
        ("sessions", "aio"),
        {"separate_stderr": True},
    ),
)
_HELD = ("passed", "not_applicable")
_ABSENT = "not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one level was reached."""

    level: Level
    denied_by: tuple[str, ...]
    """Laws and capabilities that deny it; empty when it was reached."""


def judge(outcomes: Mapping[str, str], laws: Collection[Law], declared: Mapping[str, Any]) -> list[Verdict]:
    """Judge every level; one that is denied denies those above.

    Args:
        outcomes: How each law ended, by name; a law that did not run denies its level.
        laws: All laws.
        declared: The capabilities that the backend declares; one that declares nothing has no level.
    """
    verdicts: list[Verdict] = []
    for level in LEVELS:
        denied: list[str] = [] if _declares(declared) else ["the backend declares no capability"]
        denied += [
            f"{name} is not declared as {value}" for name, value in level.gates.items() if declared.get(name) != value
        ]
        ends = [(law.name, outcomes.get(law.name, _ABSENT)) for law in laws if law.chapter in level.chapters]
        broken = [f"{name}: {outcome}" for name, outcome in ends if outcome not in _HELD]
        denied += sorted(broken, key=lambda one: one.endswith(_ABSENT))
        if verdicts and verdicts[-1].denied_by:
            denied.append(f"level {verdicts[-1].level.name} was not reached")
        verdicts.append(Verdict(level, tuple(denied)))
    return verdicts


def reached(verdicts: Collection[Verdict]) -> str | None:
    """The highest level reached; None when there is none."""
    names = [verdict.level.name for verdict in verdicts if not verdict.denied_by]
    return names[-1] if names else None


def _declares(declared: Mapping[str, Any]) -> bool:
    """Whether any fact or power is declared at all; the way of stdin is no claim."""
    return any(value not in (False, None, "none") for name, value in declared.items() if name != "stdin_mode")
