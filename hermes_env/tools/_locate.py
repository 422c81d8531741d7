"""Where a hunk goes: at the one place it fits, or nowhere."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from hermes_env.tools._anchor import resolve_anchors, scope_end
from hermes_env.tools._match import Haystack, Hit, Shift, Tier
from hermes_env.tools._near import near_lines
from hermes_env.tools._problem import Candidate, EditError, ErrorCode, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes_env.tools._rules import Rules

# One more than is shown, so that "several" is known to be complete or not.
_ENOUGH = 6
# Places looked at in one search: only a file of equal lines has more, and there no choice is right.
_MAX_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class Block:
    """A hunk, as the matcher needs it."""

    old: tuple[bytes, ...]
    """The lines that must be in the file."""
    new: tuple[bytes, ...]
    """The lines that will be there; used to recognise a hunk that was already applied."""
    anchors: tuple[bytes, ...] = ()
    old_start: int | None = None
    end_of_file: bool = False
    bare_tail: int = 0
    """How many of the last old lines were wholly empty in the patch, and last in the hunk."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one hunk in a file; lines from 0."""

    line: int
    length: int
    tier: Tier
    shift: Shift | None = None
    anchor: int | None = None
    out_of_order: bool = False
    dropped: int = 0
    """Wholly empty lines at the end of the hunk that were taken as a gap, not as context."""


@dataclass(slots=True)
class Progress:
    """What earlier hunks of the same file have taken."""

    cursor: int = 0
    taken: list[tuple[int, int]] = field(default_factory=list)
    """First and last line of each, ascending; none reaches into another."""

    def free(self, line: int, length: int) -> bool:
        """Tell whether lines ``line`` to ``line + length`` touch no earlier hunk."""
        after = bisect_left(self.taken, (line + 1, 0))
        if after < len(self.taken) and self.taken[after][0] < line + length:
            return False
        return not after or self.taken[after - 1][1] <= line

    def inside(self, line: int) -> bool:
        """Tell whether the place before a line is in the middle of an earlier hunk."""
        before = bisect_left(self.taken, (line, 0))
        return before > 0 and self.taken[before - 1][1] > line

    def take(self, placement: Placement) -> None:
        """Note a placed hunk."""
        end = placement.line + placement.length
        insort(self.taken, (placement.line, end))
        if placement.length == 0:
            # What was appended says nothing about where the next hunk is; its '@@' line does.
            end = 0 if placement.anchor is None else placement.anchor + 1
        if not placement.out_of_order:
            self.cursor = max(self.cursor, end)


def _fail(code: ErrorCode, message: str, candidates: Iterable[Candidate] = ()) -> NoReturn:
    raise EditError(Problem(code, message, candidates=tuple(candidates)))


def locate(haystack: Haystack, block: Block, progress: Progress, rules: Rules) -> Placement:
    """Return the place of a hunk.

    Raises:
        EditError: ``context_not_found``, ``anchor_not_found``, ``ambiguous_match``, ``overlap`` or
            ``already_applied``, with the lines that the hunk may have meant.
    """
    gap = block.bare_tail if block.bare_tail == len(block.old) else 0
    if gap:
        block = _without_tail(block)
    search = _Search(haystack, block, progress, rules)
    if not block.old:
        return search.insertion(gap)
    found = search.run()
    if found is not None:
        return found
    if block.bare_tail:
        shorter = _without_tail(block)
        found = _Search(haystack, shorter, progress, rules, dropped=block.bare_tail).run()
        if found is not None:
            return found
    return search.fail()


def _without_tail(block: Block) -> Block:
    tail = block.bare_tail
    return Block(
        block.old[: len(block.old) - tail],
        block.new[: len(block.new) - tail],
        block.anchors,
        block.old_start,
        block.end_of_file,
    )


class _Search:
    def __init__(
        self,
        haystack: Haystack,
        block: Block,
        progress: Progress,
        rules: Rules,
        *,
        dropped: int = 0,
    ) -> None:
        self._haystack = haystack
        self._block = block
        self._progress = progress
        self._rules = rules
        self._dropped = dropped
        self._overlapped: Hit | None = None
        self._anchors: tuple[int, ...] = ()
        self._scopes: dict[int, int] = {}

    def insertion(self, dropped: int) -> Placement:
        """Place a hunk without old lines: below its anchor, on top for ``-0,0`` or at the end."""
        block, lines = self._block, self._haystack.lines
        anchor = None
        if block.end_of_file or not (block.anchors or block.old_start == 0):
            line = lines
        elif block.anchors:
            places = resolve_anchors(self._haystack, block.anchors, self._progress.cursor)
            if len(places) > 1:
                self._ambiguous([Hit(place, Tier.EXACT) for place in places], "the '@@' line")
            anchor = places[0]
            line = anchor + 1
        else:
            line = 0
        if self._progress.inside(line):
            _fail(
                "overlap",
                f"line {line + 1} is inside an earlier hunk",
                [self._haystack.candidate(line)],
            )
        return Placement(
            line,
            0,
            Tier.EXACT,
            anchor=anchor,
            out_of_order=line < self._progress.cursor,
            dropped=dropped,
        )

    def run(self) -> Placement | None:
        """Place a hunk with old lines; None if it is nowhere."""
        block = self._block
        if not any(line.strip(b" \t") for line in block.old) and not (
            block.anchors or block.end_of_file or block.old_start
        ):
            _fail(
                "ambiguous_match",
                "the hunk has only blank lines to find; add a context line or an '@@' line",
            )
        if block.end_of_file:
            return self._at_end()
        if block.anchors:
            self._anchors = resolve_anchors(self._haystack, block.anchors, self._progress.cursor)
            return self._first(self._in_scope) or self._first(self._beyond_scope)
        return self._first(self._anywhere)

    def _first(self, search: Callable[[Tier], Placement | None]) -> Placement | None:
        for tier in self._rules.tiers:
            found = search(tier)
            if found is not None:
                return found
        return None

    def _hits(self, tier: Tier, start: int, end: int | None = None) -> list[Hit]:
        """Return the first free places; one that touches an earlier hunk is only remembered."""
        hits: list[Hit] = []
        length = len(self._block.old)
        # A place may reach beyond the end, but must begin before it.
        stop = None if end is None else end + length - 1
        for hit in islice(self._haystack.find(tier, self._block.old, start, stop), _MAX_SEEN):
            if not self._progress.free(hit.line, length):
                self._overlapped = self._overlapped or hit
                continue
            hits.append(hit)
            if len(hits) == _ENOUGH:
                break
        return hits

    def _place(self, hit: Hit, *, anchor: int | None = None) -> Placement:
        return Placement(
            hit.line,
            len(self._block.old),
            hit.tier,
            hit.shift,
            anchor,
            out_of_order=hit.line < self._progress.cursor,
            dropped=self._dropped,
        )

    def _at_end(self) -> Placement | None:
        start = self._haystack.lines - len(self._block.old)
        if start < 0:
            return None
        anchor = None
        if self._block.anchors:
            anchors = resolve_anchors(self._haystack, self._block.anchors, self._progress.cursor)
            anchor = max((line for line in anchors if line <= start), default=None)
        for tier in self._rules.tiers:
            for hit in self._hits(tier, start):
                return self._place(hit, anchor=anchor)
        return None

    def _anywhere(self, tier: Tier) -> Placement | None:
        hits = self._hits(tier, self._progress.cursor)
        if not hits and self._progress.cursor:
            hits = self._hits(tier, 0)
        return self._choose(hits)

    def _choose(self, hits: Sequence[Hit]) -> Placement | None:
        if not hits:
            return None
        if len(hits) == 1:
            return self._place(hits[0])
        hint = self._block.old_start
        if hint:
            hits = self._hits_near(hits, hint - 1)
            if len(hits) == 1:
                return self._place(hits[0])
        return self._ambiguous(hits, "the hunk")

    def _hits_near(self, hits: Sequence[Hit], line: int) -> list[Hit]:
        """Return the places nearest to the line of a numeric header, one or two."""
        tier = hits[0].tier
        near = [*hits, *self._hits(tier, max(line, 0))[:1]]
        seen = islice(self._haystack.find(tier, self._block.old, 0), _MAX_SEEN)
        near += [hit for hit in seen if hit.line <= line][-1:]
        free = {h.line: h for h in near if self._progress.free(h.line, len(self._block.old))}
        best = min(abs(place - line) for place in free)
        return [hit for place, hit in sorted(free.items()) if abs(place - line) == best]

    def _in_scope(self, tier: Tier) -> Placement | None:
        found: dict[int, tuple[Hit, int]] = {}
        for anchor in self._anchors:
            hits = self._hits(tier, anchor + 1, self._scope(anchor))
            # The text of an '@@' line is often repeated as the first context line.
            hits = hits or self._hits(tier, anchor, anchor + 1)
            for hit in hits:
                # Of anchors nested in each other the innermost is reported.
                found[hit.line] = (hit, anchor)
        return self._only(found)

    def _scope(self, anchor: int) -> int:
        if anchor not in self._scopes:
            self._scopes[anchor] = scope_end(self._haystack, anchor)
        return self._scopes[anchor]

    def _beyond_scope(self, tier: Tier) -> Placement | None:
        hits = self._hits(tier, min(self._anchors) + 1)
        return self._only({hit.line: (hit, max(a for a in self._anchors if a < hit.line)) for hit in hits})

    def _only(self, found: dict[int, tuple[Hit, int]]) -> Placement | None:
        if not found:
            return None
        if len(found) > 1:
            hits = [hit for _, (hit, _) in sorted(found.items())]
            if self._block.old_start:
                return self._choose(hits)
            self._ambiguous(hits, "the hunk")
        hit, anchor = next(iter(found.values()))
        return self._place(hit, anchor=anchor)

    def _ambiguous(self, hits: Sequence[Hit], what: str) -> NoReturn:
        count = f"{len(hits)}" if len(hits) < _ENOUGH else f"more than {_ENOUGH - 1}"
        lines = ", ".join(str(hit.line + 1) for hit in hits[:5])
        message = (
            f"{what} fits at {count} places (lines {lines}); add context lines, or an '@@' line "
            "with the text of the function or class around it"
        )
        _fail("ambiguous_match", message, self._haystack.candidates(hits))

    def fail(self) -> NoReturn:
        """Say why the hunk is nowhere."""
        if self._overlapped is not None:
            line = self._overlapped.line
            message = f"the hunk fits only at line {line + 1}, which an earlier hunk has taken"
            _fail("overlap", message, [self._haystack.candidate(line)])
        applied = self._applied()
        if applied is not None:
            message = f"the hunk is already applied: its new lines are at line {applied + 1}"
            _fail("already_applied", message, [self._haystack.candidate(applied)])
        self._not_found()

    def _applied(self) -> int | None:
        """Return where the new lines are, if exactly once and if they say enough to be sure."""
        old, new = self._block.old, self._block.new
        telling = [line for line in new if line.strip(b" \t")]
        if not telling or (len(new) < len(old) and len(telling) < 2):
            return None
        for tier in (Tier.EXACT, Tier.TRAILING):
            hits = list(islice(self._haystack.find(tier, new), 2))
            if hits:
                return hits[0].line if len(hits) == 1 else None
        return None

    def _not_found(self) -> NoReturn:
        block = self._block
        where = ""
        if block.end_of_file:
            where = " at the end of the file"
        elif self._anchors:
            where = f" below the '@@' line (line {self._anchors[0] + 1})"
        if where:
            for tier in self._rules.tiers:
                hits = self._hits(tier, 0)
                if hits:
                    message = f"the old lines are not{where}, but at line {hits[0].line + 1}"
                    _fail("context_not_found", message, self._haystack.candidates(hits))
        message = f"the {len(block.old)} old lines (context and '-') are not in the file{where}"
        _fail("context_not_found", message, near_lines(self._haystack, block.old))
