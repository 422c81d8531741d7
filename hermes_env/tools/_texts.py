"""The error texts that agents were trained on, from the documentation of two vendors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Dialect = Literal["anthropic", "claude_code"]


@dataclass(frozen=True, slots=True)
class Texts:
    """The documented texts of one tool."""

    file_not_found: Callable[[str], str]
    """Takes the path."""
    no_match: Callable[[str, str], str]
    """Takes the path and the old text."""
    many: Callable[[str, str, int], str]
    """Takes the path, the old text and the number of places."""
    same: str
    replaced: str
    permission: str
    not_read: str
    stale: str


_SAME: Final = "No changes to make: old_string and new_string are exactly the same."
_NOT_READ: Final = "File has not been read yet. Read it first before writing to it."
_STALE: Final = "File has been unexpectedly modified. Read it again before attempting to write it."
_REPLACED: Final = "Successfully replaced text at exactly one location."
_PERMISSION: Final = "Error: Permission denied. Cannot write to file."


def _no_match(path: str, old: str) -> str:
    del path, old
    return "Error: No match found for replacement. Please check your text and try again."


def _no_match_claude_code(path: str, old: str) -> str:
    del path
    return f"String to replace not found in file.\nString: {old}"


def _many(path: str, old: str, count: int) -> str:
    del path, old
    return f"Error: Found {count} matches for replacement text. Please provide more context to make a unique match."


def _many_claude_code(path: str, old: str, count: int) -> str:
    del path
    return (
        f"Found {count} matches of the string to replace, but replace_all is false. "
        "To replace all occurrences, set replace_all to true. To replace only one occurrence, "
        f"please provide more context to uniquely identify the instance.\nString: {old}"
    )


_TEXTS: Final[dict[str, Texts]] = {
    "anthropic": Texts(
        file_not_found=lambda path: f"Error: File not found: {path}",
        no_match=_no_match,
        many=_many,
        same=_SAME,
        replaced=_REPLACED,
        permission=_PERMISSION,
        not_read=_NOT_READ,
        stale=_STALE,
    ),
    "claude_code": Texts(
        file_not_found=lambda path: f"File does not exist: {path}",
        no_match=_no_match_claude_code,
        many=_many_claude_code,
        same=_SAME,
        replaced=_REPLACED,
        permission=_PERMISSION,
        not_read=_NOT_READ,
        stale=_STALE,
    ),
}


def texts_for(dialect: Dialect) -> Texts:
    """Return the texts of a dialect.

    Raises:
        ValueError: ``dialect`` is unknown.
    """
    try:
        return _TEXTS[dialect]
    except KeyError:
        raise ValueError(f"dialect must be one of {', '.join(_TEXTS)}, not {dialect!r}") from None
