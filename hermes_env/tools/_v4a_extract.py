"""Finding the patch in a message of a model: prose, fences, shell commands, several patches."""

from __future__ import annotations

import re
from typing import Final

_BEGIN: Final = re.compile(r"^[ \t]*\*\*\*[ \t]*Begin[ \t]+Patch[ \t]*\r?$", re.MULTILINE)
_END: Final = re.compile(r"^[ \t]*\*\*\*[ \t]*End[ \t]+Patch[ \t]*\r?$", re.MULTILINE)


def extract_patches(message: str) -> tuple[str, ...]:
    """Return the text of every complete patch in a message, from its Begin to its End line.

    A Begin line starts a patch; the End line that closes it is the last one before the next Begin
    line that stands alone on its line, so content lines (which have a prefix) never end a patch. A
    patch without End is not returned: it may be cut off.
    """
    begins = [found.start() for found in _BEGIN.finditer(message) if not _is_content(message, found)]
    patches: list[str] = []
    for i, start in enumerate(begins):
        stop = begins[i + 1] if i + 1 < len(begins) else len(message)
        end = _closing(message, start, stop)
        if end is not None:
            patches.append(message[start:end].strip() + "\n")
    return tuple(patches)


def _is_content(message: str, found: re.Match[str]) -> bool:
    """A Begin line with one blank before it is a context line of an update that is still open."""
    if not found.group().startswith(" "):
        return False
    return _closing(message, 0, found.start()) is None and _BEGIN.search(message, 0, found.start()) is not None


def _closing(message: str, start: int, stop: int) -> int | None:
    """Return where a patch ends: at the first flush End line, else at the last padded one."""
    padded = None
    for found in _END.finditer(message, start, stop):
        if not found.group()[0].isspace():
            return found.end()
        padded = found.end()
    return padded
