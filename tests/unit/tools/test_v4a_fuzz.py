"""The parser on arbitrary text: only its own error, the same in one piece and in many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hermes_env.tools import (
    ERROR_CODES,
    Operation,
    Patch,
    PatchParseError,
    Problem,
    StreamingParser,
    extract_patches,
    parse_patch,
)
from tests.unit.tools._settings import thorough

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECES = st.sampled_from(
    [
        "*** Begin Patch",
        "*** End Patch",
        " *** End Patch",
        "*** Add File: a",
        "*** Delete File: b",
        "*** Update File: c",
        "*** Update File:",
        "***Update File:c",
        "*** Move File: a -> b",
        "*** Move File: a",
        "*** Move to: d",
        "*** End of File",
        "*** Environment ID: x",
        "*** Begin Patch ***",
        "*** Frobnicate",
        "***",
        "Add File: z",
        "@@",
        "@@ x",
        "@@ x @@",
        "@@ -1,2 +3,4 @@ y",
        "@@ -99999999999999999999,2 +3,4 @@",
        "@@x",
        "\\ No newline at end of file",
        "+a",
        "-a",
        " a",
        "a",
        "",
        " ",
        "\t",
        "```",
        "EOF",
        "\ufeff*** Begin Patch",
        "*** Add File\uff1a a",
        "+\udce9",
        "+\ud800",
        "+\x00",
        "\r",
    ]
)
_TEXTS = st.one_of(
    st.lists(_PIECES, max_size=25).map("\n".join),
    st.lists(_PIECES, max_size=25).map("\r\n".join),
    st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=15).map(
        lambda lines: "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    ),
    st.text(st.characters(codec=None), max_size=200),
)


def _attempt(call: Callable[[], Patch]) -> tuple[Patch | None, tuple[Problem, ...]]:
    try:
        return call(), ()
    except PatchParseError as error:
        return None, error.problems


def _parse(text: str, *, lenient: bool) -> tuple[Patch | None, tuple[Problem, ...]]:
    patch, problems = _attempt(lambda: parse_patch(text, lenient=lenient))
    assert (patch is None) == bool(problems)
    assert all(problem.code in ERROR_CODES for problem in problems)
    assert all(problem.patch_line is not None for problem in problems)
    return patch, problems


@thorough
@given(_TEXTS, st.booleans())
def test_only_its_own_error(text: str, lenient: bool) -> None:
    """Arbitrary text gives a patch or a parse error with line numbers, nothing else."""
    _parse(text, lenient=lenient)


@thorough
@given(_TEXTS, st.booleans(), st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_pieces_do_not_matter(text: str, lenient: bool, sizes: list[int]) -> None:
    """A text fed in pieces gives the same patch, operations and errors as in one piece."""
    parser = StreamingParser(lenient=lenient)
    seen: list[Operation] = []
    position = step = 0
    while position < len(text):
        size = sizes[step % len(sizes)]
        seen += parser.feed(text[position : position + size])
        position += size
        step += 1
    whole = _parse(text, lenient=lenient)
    patch, problems = _attempt(parser.close)
    assert (patch, problems) == whole
    if patch is None:
        return
    assert tuple(seen) == patch.operations[: len(seen)]
    if text.endswith("\n"):
        assert len(patch.operations) - len(seen) <= 1


@thorough
@given(_TEXTS)
def test_strict_patches_render_to_themselves(text: str) -> None:
    """What strict mode accepts it accepts again in canonical spelling, with the same effect."""
    patch, _ = _parse(text, lenient=False)
    if patch is None:
        return
    rendered = patch.render()
    again = parse_patch(rendered)
    assert again.render() == rendered
    assert [op.path for op in again.operations] == [op.path for op in patch.operations]
    assert [op.changed_lines for op in again.operations] == [op.changed_lines for op in patch.operations]


@thorough
@given(_TEXTS, st.text(max_size=30))
def test_extraction_never_fails(text: str, prose: str) -> None:
    """Looking for patches in arbitrary text raises nothing and returns whole patches only."""
    for patch in extract_patches(f"{prose}\n{text}\n{prose}"):
        assert patch.lstrip().startswith("***")
        assert patch.rstrip().endswith("Patch")
