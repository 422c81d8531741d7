"""The matrix of cancellation: every state of a command, everything that may happen to it there, and what is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._law import Law

STATES = ("new", "staging", "staged", "dispatched", "finished", "cancelled", "unknown")
"""Of a command, in their order."""
EVENTS = ("kill", "timeout", "SDK error", "lost link", "late upload")
"""What may happen in every state."""

_NO_REQUEST = "no request has been made yet: it shows in `staging`"
_ANSWERED = "a command is dispatched only when every upload of it was answered"
_CAUSE = "that is what makes an outcome unknown: see `dispatched`"
MEANINGLESS: Mapping[tuple[str, str], str] = {
    ("new", "SDK error"): _NO_REQUEST,
    ("new", "lost link"): _NO_REQUEST,
    ("new", "late upload"): "nothing has been uploaded yet",
    ("dispatched", "late upload"): _ANSWERED,
    ("finished", "late upload"): _ANSWERED,
    ("unknown", "SDK error"): _CAUSE,
    ("unknown", "lost link"): _CAUSE,
    ("unknown", "late upload"): _ANSWERED,
}
"""What cannot happen in a state, and why."""


def covered(laws: Mapping[str, Law]) -> dict[tuple[str, str], list[Law]]:
    """The laws about each state and event."""
    found: dict[tuple[str, str], list[Law]] = {}
    for law in laws.values():
        for place in law.covers:
            state, _, event = place.partition(": ")
            found.setdefault((state, event), []).append(law)
    return found


def matrix() -> list[list[str]]:
    """Rows of the table: the state, then for each event how many laws are about it, or why it cannot happen."""
    from ._suite import LAWS

    found = covered(LAWS)
    return [
        [f"`{state}`", *(_cell(found.get((state, event), []), (state, event)) for event in EVENTS)] for state in STATES
    ]


def _cell(laws: list[Law], place: tuple[str, str]) -> str:
    if not laws:
        return f"n/a: {MEANINGLESS[place]}"
    return f"{len(laws)} law{'s' if len(laws) > 1 else ''}"


def coverage_table() -> str:
    """Markdown, made from the laws: the matrix, then the laws about each state and event."""
    from ._suite import LAWS

    lines = [f"| state | {' | '.join(EVENTS)} |", "|---" * (1 + len(EVENTS)) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in matrix()]
    lines += ["", "| state | event | laws |", "|---|---|---|"]
    found = covered(LAWS)
    for state, event in sorted(found, key=lambda place: (STATES.index(place[0]), place[1])):
        names = ", ".join(f"`{law.name}`" for law in found[state, event])
        lines.append(f"| {state} | {event} | {names} |")
    return "\n".join(lines)
