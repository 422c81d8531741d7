"""The lines that a block which was not found may have meant; bounded work in files of any size."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Final

from hermes_env._codec import decode_lossless
from hermes_env.tools._match import Haystack, Tier, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_env.tools._problem import Candidate

MAX_NEAR: Final = 3
MAX_DIAGNOSED: Final = 10
"""Blocks of one file for which near lines are looked for: each takes up to 0.1 s in 10 MB."""

_MAX_VOTERS: Final = 40
_MAX_PLACES: Final = 20
_MAX_WORDS: Final = 8
# Two 200-character strings cost difflib about 0.1 ms.
_MAX_COMPARED: Final = 200
_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{3,}")


def near_lines(haystack: Haystack, block: Sequence[bytes], *, limit: int = MAX_NEAR) -> tuple[Candidate, ...]:
    """Return up to ``limit`` lines at which ``block`` nearly is, best first.

    Lines of the block that are in the file (blanks around them ignored) vote for the place where
    the block would begin; without any such line, lines that share its rarest words are compared.
    """
    if haystack.diagnosed >= MAX_DIAGNOSED:
        return ()
    haystack.diagnosed += 1
    wanted = normalise(Tier.INDENT, b"\n".join(block)).split(b"\n")
    votes = _votes(haystack, wanted)
    if not votes:
        votes = _similar(haystack, wanted)
    best = sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return tuple(haystack.candidate(line) for line, _ in best if line < haystack.lines)


def _votes(haystack: Haystack, wanted: Sequence[bytes]) -> dict[int, float]:
    votes: Counter[int] = Counter()
    telling = sorted(
        ((i, line) for i, line in enumerate(wanted) if line),
        key=lambda item: -len(item[1]),
    )
    buffer = haystack.buffer(Tier.INDENT)
    for i, line in telling[:_MAX_VOTERS]:
        for place in islice(buffer.find(line, 0), _MAX_PLACES):
            votes[max(place - i, 0)] += len(line)
    return dict(votes)


def _similar(haystack: Haystack, wanted: Sequence[bytes]) -> dict[int, float]:
    buffer = haystack.buffer(Tier.INDENT)
    scores: dict[int, float] = {}
    first = next((i for i, line in enumerate(wanted) if _WORD.search(line)), None)
    if first is None:
        return scores
    target = decode_lossless(wanted[first][:_MAX_COMPARED])
    words = sorted(set(_WORD.findall(wanted[first])), key=len, reverse=True)[:_MAX_WORDS]
    for word in words:
        position = -1
        for _ in range(_MAX_PLACES):
            position = buffer.data.find(word, position + 1)
            if position < 0:
                break
            line = buffer.index.line_at(position) - 1
            start = max(line - first, 0)
            if start not in scores:
                scores[start] = _ratio(target, buffer.lines(line, line + 1))
    return {line: score for line, score in scores.items() if score > 0.5}


def _ratio(target: str, lines: Sequence[bytes]) -> float:
    have = decode_lossless(lines[0][:_MAX_COMPARED]) if lines else ""
    return SequenceMatcher(None, target, have, autojunk=False).ratio()
