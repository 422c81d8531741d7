"""Where the Codex tool would put a hunk: at the first place from the cursor on."""

from __future__ import annotations

from hermes_env._codec import decode_lossless
from hermes_env.tools._locate import Block, Placement, Progress
from hermes_env.tools._match import CODEX_TIERS, Haystack, Hit, Tier
from hermes_env.tools._near import near_lines
from hermes_env.tools._problem import EditError, Problem, excerpt


def locate_codex(haystack: Haystack, block: Block, progress: Progress) -> Placement:
    """Return the place of a hunk as the reference implementation chooses it.

    Raises:
        EditError: ``anchor_not_found`` or ``context_not_found``.
    """
    cursor, anchor = progress.cursor, None
    for text in block.anchors:
        found = _first(haystack, (text,), cursor)
        if found is None:
            message = f"Failed to find context '{excerpt(decode_lossless(text))}'"
            raise EditError(Problem("anchor_not_found", message, candidates=near_lines(haystack, [text])))
        anchor = found.line
        cursor = anchor + 1
    if not block.old:
        # The reference appends even when an '@@' text was found.
        return Placement(haystack.lines, 0, Tier.EXACT, anchor=anchor)
    placed = _place(haystack, block.old, cursor, anchor, end_of_file=block.end_of_file)
    if placed is None and not block.old[-1]:
        placed = _place(haystack, block.old[:-1], cursor, anchor, end_of_file=block.end_of_file, dropped=1)
    if placed is None:
        message = "Failed to find expected lines"
        raise EditError(Problem("context_not_found", message, candidates=near_lines(haystack, block.old)))
    return placed


def _first(haystack: Haystack, block: tuple[bytes, ...], start: int) -> Hit | None:
    return next((hit for tier in CODEX_TIERS for hit in haystack.find(tier, block, start)), None)


def _place(
    haystack: Haystack,
    old: tuple[bytes, ...],
    cursor: int,
    anchor: int | None,
    *,
    end_of_file: bool,
    dropped: int = 0,
) -> Placement | None:
    if not old:
        # An empty pattern is found where the search starts.
        return Placement(cursor, 0, Tier.EXACT, anchor=anchor, dropped=dropped)
    start = max(haystack.lines - len(old), cursor) if end_of_file else cursor
    hit = _first(haystack, old, start)
    return Placement(hit.line, len(old), hit.tier, anchor=anchor, dropped=dropped) if hit else None
