"""Finding the places of many hunks: the fast way finds what the obvious way finds."""

from __future__ import annotations

from random import Random

import pytest

from hermes_env.tools import Snapshot, _match, make_plan, parse_patch, unified_diff
from hermes_env.tools._locate import Placement, Progress
from hermes_env.tools._text import Document


@pytest.mark.parametrize("searches", [0, 1 << 30])
def test_places_are_the_same_with_and_without_an_index(monkeypatch: pytest.MonkeyPatch, searches: int) -> None:
    """After many searches a file is indexed; what is found, and in which order, stays the same."""
    monkeypatch.setattr(_match, "INDEX_AFTER", searches)
    random = Random(1)
    for _ in range(200):
        lines = [random.choice([b"a", b"b", b"", b"c"]) for _ in range(random.randrange(12))]
        haystack = _match.Haystack(Document(b"".join(line + b"\n" for line in lines)))
        for size in (1, 2, 3):
            block = [random.choice([b"a", b"b", b""]) for _ in range(size)]
            start, end = random.randrange(len(lines) + 1), random.choice([None, random.randrange(len(lines) + 1)])
            found = [hit.line for hit in haystack.find(_match.Tier.EXACT, block, start, end)]
            stop = len(lines) if end is None else end
            assert found == [i for i in range(start, stop - size + 1) if lines[i : i + size] == block]


def test_earlier_hunks_are_in_the_way_of_later_ones() -> None:
    """Whether a place is free is what comparing it with every earlier place says."""
    random = Random(2)
    for _ in range(300):
        progress = Progress()
        taken: list[tuple[int, int]] = []
        for _ in range(12):
            line, length = random.randrange(20), random.choice([0, 0, 1, 2, 4])
            inside = any(start < line < end for start, end in taken)
            free = all(line >= end or line + length <= start for start, end in taken)
            assert progress.inside(line) == inside
            assert not length or progress.free(line, length) == free
            if free and not inside:
                taken.append((line, line + length))
                progress.take(Placement(line, length, _match.Tier.EXACT))


def test_a_patch_of_very_many_hunks() -> None:
    """Five thousand hunks go each to its place, in order and out of order."""
    lines = [b"line %d\n" % number for number in range(20_000)]
    numbers = list(range(0, 20_000, 4))
    for order in (numbers, numbers[2500:] + numbers[:2500]):
        body = "".join(f"@@\n-line {number}\n+LINE {number}\n" for number in order)
        patch = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n")
        plan = make_plan(patch, {"f": Snapshot.of(b"".join(lines))})
        assert plan.ok
        expected = b"".join(line.upper() if number % 4 == 0 else line for number, line in enumerate(lines))
        assert plan.changes[0].after == expected


@pytest.mark.parametrize("char", ["x", "é", "€", "😀"])
def test_a_line_of_any_length_is_shown_cut_at_a_character(char: str) -> None:
    """The diff of an endless line is short, names its length, and does not take a cut character for foreign bytes."""
    for lead in range(4):
        before = ("." * lead + char * 2_000_000).encode()
        diff = unified_diff(before, before + b"!", path="f")
        assert len(diff.text.encode()) < 10_000 and f"({len(before):,} bytes)" in diff.text
        assert "\\x" not in diff.text
