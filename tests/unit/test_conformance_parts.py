"""The suite's own parts that decide what is told: comparison, corpus and choice."""

from __future__ import annotations

import subprocess

import pytest

from hermes_env import InvalidArgument
from hermes_env_conformance import CHAPTERS, LAWS, make_suite
from hermes_env_conformance import _cells as cells
from hermes_env_conformance import _check as check
from hermes_env_conformance import _corpus as corpus
from hermes_env_conformance import _explain as explained
from hermes_env_conformance import _levels as levels
from hermes_env_conformance._choice import choose_laws


@pytest.mark.parametrize("content", corpus.CONTENTS, ids=lambda content: content.name)
def test_both_decoders_agree(content: corpus.Content) -> None:
    """The shell's printf makes the same bytes from the escapes as our own decoder."""
    done = subprocess.run(["sh", "-c", f"printf {content.printf}"], capture_output=True, check=True)
    assert done.stdout == content.data
    assert content.escapes.isascii()


def test_the_pattern_is_shifted_by_any_loss() -> None:
    """Its length is no multiple of any block, and it holds every byte value."""
    assert set(corpus.PATTERN.data) == set(range(256))
    assert len(corpus.PATTERN.data) == 257
    assert corpus.PATTERN.fill(1000) == (corpus.PATTERN.data * 4)[:1000]


def test_profiles_grow() -> None:
    """Each profile holds all cases of the smaller one, and `full` the product."""
    sizes = [set(corpus.sizes(profile)) for profile in corpus.PROFILES]
    contents = [{one.name for one in corpus.contents(profile)} for profile in corpus.PROFILES]
    assert sizes[0] <= sizes[1] < sizes[2]
    assert contents[0] < contents[1] == contents[2]
    assert len(corpus.content_cases("full")) > 10 * len(corpus.content_cases("default"))


@pytest.mark.parametrize(
    ("expected", "actual", "offset"),
    [(b"", b"x", 0), (b"abc", b"abX", 2), (b"abc", b"ab", 2), (b"a" * 10**6 + b"b", b"a" * 10**6 + b"c", 10**6)],
)
def test_a_difference_is_found(expected: bytes, actual: bytes, offset: int) -> None:
    """The first offset that differs is told, in a text of bounded length."""
    text = check.difference(expected, actual)
    assert f"first difference at offset {offset}" in text
    assert len(text) < 500
    with pytest.raises(check.LawBroken):
        check.same_bytes("it", expected, actual)


def test_values_in_messages_are_short() -> None:
    """However long a value is, a message shows a readable part of it."""
    assert len(check.short("x" * 10**6)) < 400
    with pytest.raises(check.LawBroken, match=r"exit code: expected 0, got 1"):
        check.equal("exit code", 0, 1)


def test_every_law_states_itself_in_one_sentence() -> None:
    """A law has a docstring of one line that ends with a full stop, and belongs to a chapter."""
    for law in LAWS.values():
        assert law.statement.endswith(".")
        assert "\n" not in law.statement
        assert law.chapter in CHAPTERS
    assert len(LAWS) >= 60
    first = ("stdin", "output", "process", "files", "tools", "sessions")
    assert (*first, "secrecy", "cancellation", "lifecycle", "aio") == CHAPTERS


def test_laws_are_chosen_by_chapter_and_name() -> None:
    """Chapters and names narrow the choice; unknown ones are refused by name."""
    assert choose_laws((), ()) == list(LAWS)
    assert {LAWS[name].chapter for name in choose_laws(("files", "output"), ())} == {"files", "output"}
    assert choose_laws((), ("test_silence_is_silence",)) == ["test_silence_is_silence"]
    for chapters, laws in ((("nowhere",), ()), ((), ("test_nothing",))):
        with pytest.raises(InvalidArgument, match=r"nowhere|test_nothing"):
            choose_laws(chapters, laws)


@pytest.mark.parametrize(
    "settings", [{"profile": "hasty"}, {"patience": 0}, {"workspace": "tmp"}, {"known_gaps": {"test_x": "y"}}]
)
def test_settings_are_refused_by_name(settings: dict[str, object]) -> None:
    """A setting that cannot be used is refused before anything is opened, naming it."""
    with pytest.raises(InvalidArgument) as caught:
        make_suite("local", **settings)  # type: ignore[arg-type]
    assert caught.value.argument == next(iter(settings))


def test_a_gap_denies_its_level_and_those_above() -> None:
    """One law that does not hold denies the level of its chapter; a backend that declares nothing has none."""
    outcomes = dict.fromkeys(LAWS, "passed")
    declared = {"kill_scope": "command", "separate_stderr": True, "stdin_mode": "pipe"}
    assert levels.reached(levels.judge(outcomes, LAWS.values(), declared)) == "complete"
    assert levels.reached(levels.judge(outcomes, LAWS.values(), {**declared, "kill_scope": "none"})) == "private"
    assert levels.reached(levels.judge(outcomes, LAWS.values(), {"kill_scope": "none", "stdin_mode": "pipe"})) is None
    gap = {**outcomes, "test_no_file_keeps_stdin": "gap"}
    verdicts = levels.judge(gap, LAWS.values(), declared)
    assert levels.reached(verdicts) == "files"
    assert verdicts[2].denied_by == ("test_no_file_keeps_stdin: gap",)
    del outcomes["test_exit_codes_come_back"]
    assert levels.reached(levels.judge(outcomes, LAWS.values(), declared)) is None


def test_every_chapter_is_explained_and_every_law_has_a_known_fault() -> None:
    """`--explain` has a reason of its own for each chapter and each law, and for each law something that breaks it."""
    assert set(explained.WHY) == set(CHAPTERS)
    reasons = explained.reasons()
    assert list(reasons) == list(LAWS)
    assert len(set(reasons.values())) == len(LAWS)
    for name, reason in reasons.items():
        assert reason.endswith(".")
        assert len(reason) > 30
        assert reason in explained.explain(LAWS[name])
    assert set(explained.known_faults()) == set(LAWS)


def test_the_table_of_cancellation_has_every_state() -> None:
    """Every state and every event in it has a law, or a reason why it cannot happen, never both."""
    everything = {(state, event) for state in cells.STATES for event in cells.EVENTS}
    proven = set(cells.covered(LAWS)) & everything
    assert proven | set(cells.MEANINGLESS) == everything
    assert not proven & set(cells.MEANINGLESS)
    assert len(proven) == 27
    for state, event in proven:
        assert f"| {state} | {event} |" in cells.coverage_table()
