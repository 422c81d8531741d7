"""Comparisons whose failures say what differs and where, never megabytes."""

from __future__ import annotations

import hashlib

_WINDOW = 8
"""Bytes shown on each side of the first difference."""
_SHOWN = 300
"""Characters shown of one value."""


class LawBroken(AssertionError):
    """An environment does not do what a law demands."""


def same_bytes(what: str, expected: bytes, actual: bytes) -> None:
    """Demand equal bytes; the failure names both sizes and digests, the first difference and what is around it.

    Raises:
        LawBroken: They differ.
    """
    if expected != actual:
        raise LawBroken(f"{what}: {difference(expected, actual)}")


def difference(expected: bytes, actual: bytes) -> str:
    """How two byte strings differ, in a few short lines."""
    at = first_difference(expected, actual)
    return "\n".join(
        [
            "bytes differ",
            f"  expected {len(expected)} bytes sha256 {hashlib.sha256(expected).hexdigest()}",
            f"  actual   {len(actual)} bytes sha256 {hashlib.sha256(actual).hexdigest()}",
            f"  first difference at offset {at}",
            f"  expected {window(expected, at)}",
            f"  actual   {window(actual, at)}",
        ]
    )


def first_difference(expected: bytes, actual: bytes) -> int:
    """Offset of the first byte that differs; the shorter length when one is the start of the other."""
    low, high = 0, min(len(expected), len(actual))
    while low < high:
        middle = (low + high + 1) // 2
        if expected[low:middle] == actual[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def window(data: bytes, at: int) -> str:
    """A short hexadecimal view around an offset; the byte at the offset is in brackets."""
    start = max(0, at - _WINDOW)
    before, after = data[start:at].hex(" "), data[at + 1 : at + _WINDOW].hex(" ")
    here = f"[{data[at]:02x}]" if at < len(data) else "[end]"
    return " ".join(part for part in (before, here, after) if part)


def equal(what: str, expected: object, actual: object) -> None:
    """Demand equal values.

    Raises:
        LawBroken: They differ.
    """
    if expected != actual:
        raise LawBroken(f"{what}: expected {short(expected)}, got {short(actual)}")


def holds(condition: object, problem: str) -> None:
    """Demand that something is true.

    Raises:
        LawBroken: It is not.
    """
    if not condition:
        raise LawBroken(problem)


def short(value: object) -> str:
    """A value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
