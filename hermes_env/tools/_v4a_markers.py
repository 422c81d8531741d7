"""The ``***`` and ``@@`` lines of a patch: what each says, and what is wrong with a near miss."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

MarkerKind = Literal["begin", "end", "add", "delete", "update", "move_file", "move_to", "environment", "eof"]

HEADERS: Final = frozenset({"add", "delete", "update", "move_file"})

_BARE: Final[tuple[tuple[MarkerKind, str], ...]] = (
    ("begin", r"Begin\s+Patch"),
    ("end", r"End\s+Patch"),
    ("eof", r"End\s+of\s+File"),
)
_VALUED: Final[tuple[tuple[MarkerKind, str], ...]] = (
    ("add", r"Add\s+File"),
    ("delete", r"Delete\s+File"),
    ("update", r"Update\s+File"),
    ("move_file", r"Move\s+File"),
    ("move_to", r"Move\s+to"),
    ("environment", r"Environment\s+ID"),
)


def _compile(flags: int) -> tuple[tuple[MarkerKind, re.Pattern[str]], ...]:
    stars = r"(?P<stars>\*\*\*\s*|)"
    bare = [(kind, re.compile(rf"{stars}{words}(?P<value>.*)", flags)) for kind, words in _BARE]
    valued = [(kind, re.compile(rf"{stars}{words}\s*:(?P<value>.*)", flags)) for kind, words in _VALUED]
    return (*bare, *valued)


_STRICT: Final = _compile(re.DOTALL)
_LENIENT: Final = _compile(re.DOTALL | re.IGNORECASE)
_DECORATION: Final = re.compile(r"\s+\*{2,}$")
# Byte order mark, zero-width space and joiners, word joiner: seen around markers in pasted patches.
_INVISIBLE: Final = re.compile("[\ufeff\u200b\u200c\u200d\u2060]")
_WIDE: Final = str.maketrans({"\u3000": " ", "\u00a0": " ", "\uff1a": ":", "\uff0a": "*"})
_NUMBERS: Final = re.compile(
    r"@@\s+-(\d{1,9})(?:,\d{1,9})?\s+\+\d{1,9}(?:,\d{1,9})?(?:\s+@@(?P<text>.*))?\s*", re.DOTALL
)

OPERATIONS: Final = (
    "'*** Add File: ', '*** Delete File: ', '*** Update File: ', '*** Move File: a -> b' or '*** End Patch'"
)


@dataclass(frozen=True, slots=True)
class Marker:
    """A recognised ``***`` line."""

    kind: MarkerKind
    value: str = ""
    """The path or id, trimmed."""
    extra: str = ""
    """Characters that do not belong there, as in ``*** Begin Patch ***``."""
    repaired: str = ""
    """What was tolerated, for a warning; only in lenient mode."""


def read_marker(line: str, *, lenient: bool = False) -> Marker | None:
    """Return what a line says as a marker, or None. Blanks around it do not matter."""
    text = line.strip()
    if not lenient:
        return _match(text, _STRICT) if text.startswith("***") else None
    clean = _INVISIBLE.sub("", text).translate(_WIDE).strip()
    marker = _match(clean, _LENIENT)
    if marker is None or (marker.kind == "begin" and not clean.startswith("***")):
        return None
    strict = _match(text, _STRICT) if text.startswith("***") else None
    if strict is not None and strict.kind == marker.kind:
        # Only what is around the marker words is cleaned; a path keeps its own characters.
        return Marker(
            strict.kind,
            _DECORATION.sub("", strict.value),
            "",
            _repair(strict.extra and "decoration", line),
        )
    if not clean.startswith("***") and not marker.value:
        return None
    if not clean.startswith("***") and marker.kind not in HEADERS:
        return None
    return Marker(marker.kind, _DECORATION.sub("", marker.value), "", _repair("spelling", line))


def _repair(what: str, line: str) -> str:
    return f"{what} of the marker {line.strip()[:60]!a} repaired" if what else ""


def _match(text: str, patterns: tuple[tuple[MarkerKind, re.Pattern[str]], ...]) -> Marker | None:
    for kind, pattern in patterns:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        value = found["value"]
        if kind in {"begin", "end", "eof"}:
            return Marker(kind, "", value.strip()) if not value or not value[0].isalnum() else None
        value = value.strip()
        decoration = _DECORATION.search(value)
        return Marker(kind, value, decoration.group() if decoration else "")
    return None


def read_hunk_header(line: str) -> tuple[int | None, str | None] | None:
    """Return (old start, anchor text) of an ``@@`` line, or None if it is not one.

    A blank after ``@@`` is the separator; further blanks are the indentation of the anchor. A
    closing ``@@`` is dropped.
    """
    if line.rstrip() == "@@":
        return None, None
    if not line.startswith("@@ "):
        return None
    numbers = _NUMBERS.fullmatch(line)
    if numbers is not None:
        text = (numbers["text"] or "").strip()
        return int(numbers[1]), text or None
    text = line[3:].rstrip()
    if text.endswith(" @@"):
        text = text[:-3].rstrip()
    if text.strip() in {"", "@@"}:
        return None, None
    return None, text
