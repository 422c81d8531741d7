"""The suite itself: run as users run it, on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hermes_env_conformance import LAWS, ConformanceReport
from tests.slow import slow

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(r"(\d+) passed, (\d+) failed, (\d+) gaps")
WRAPPED = "tests.integration.wrapped"

NOT_APPLICABLE = {
    "test_a_guest_finds_all_and_ends_nothing",
    "test_a_failed_upload_runs_nothing",
    "test_a_late_upload_is_erased",
    "test_a_link_lost_during_an_upload_runs_nothing",
    "test_a_request_that_arrives_twice_runs_once",
    "test_an_unknown_user_runs_nothing",
}
"""Laws about refs, uploads, doubled requests and other users, which a local environment does not have."""


def suite(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, from an empty folder."""
    return python(where, "-m", "hermes_env_conformance", *arguments)


def python(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with the backends of the tests on its path."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False, timeout=590)


def counts(done: subprocess.CompletedProcess[str]) -> tuple[int, ...]:
    """Passed, failed and gaps of the last line."""
    found = LAST_LINE.fullmatch(done.stdout.rstrip("\n").rpartition("\n")[2])
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return tuple(map(int, found.groups()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "profile"),
    [
        ("local", "default"),
        # The plugins of the documents are wrappers, too, and keep every law in every run.
        pytest.param(f"{WRAPPED}:EnvPrefix", "quick", marks=slow("takes a quarter of a minute")),
    ],
)
def test_every_law_holds(tmp_path: Path, backend: str, profile: str) -> None:
    """All laws hold for the local backend and for a plain wrapper around a command-line tool."""
    (tmp_path / "empty").mkdir()
    report = tmp_path / "report"
    done = suite(tmp_path / "empty", backend, "--profile", profile, "--report", str(report))
    assert done.returncode == 0, done.stdout[-4000:]
    assert counts(done) == (len(LAWS) - len(NOT_APPLICABLE), 0, 0)
    assert not list((tmp_path / "empty").iterdir()), "the run left something in the user's folder"
    assert (report / "conformance.schema.json").exists()
    name = backend.replace(":", "-")
    parsed = ConformanceReport.model_validate_json((report / f"{name}.json").read_bytes())
    assert {law.name for law in parsed.laws} == set(LAWS)
    assert all(law.statement.endswith(".") for law in parsed.laws)
    assert {law.name for law in parsed.laws if law.outcome == "not_applicable"} == NOT_APPLICABLE
    assert parsed.level == "complete"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("local", "--law", "test_silence_is_silence"), 0),
        (("tests.mutants.output_faults:ShowsBanner", "--law", "test_silence_is_silence"), 1),
        (("no-such-backend",), 2),
        (("local", "--option", "no_such_option=1"), 2),
        (("local", "--option", "no-value"), 2),
        (("local", "--chapter", "no-such-chapter"), 2),
        (("local", "--law", "test_no_such_law"), 2),
        (("local", "--gap", "test_no_such_law=reason"), 2),
        (("local", "--gap", "test_silence_is_silence="), 2),
        (("local", "--profile", "hasty"), 2),
        ((), 2),
        ((f"{WRAPPED}:Unreachable",), 3),
    ],
)
def test_exit_codes(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """0 held, 1 a law failed, 2 wrong usage, 3 the backend is unavailable."""
    done = suite(tmp_path, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    if code < 2:
        assert sum(counts(done)) == 1


def test_a_run_without_any_law_fails(tmp_path: Path) -> None:
    """A run in which no law applied proves nothing and does not pass."""
    done = suite(tmp_path, "tests.mutants.life_faults:DeclaresNothing", "--law", "test_live_stdin_is_a_conversation")
    assert "needs live_stdin" in done.stdout
    assert (done.returncode, counts(done)) == (1, (0, 0, 0))


def test_a_gap_is_counted_apart_and_must_be_one(tmp_path: Path) -> None:
    """A known gap is neither passed nor failed; a gap that holds after all fails."""
    law = "test_silence_is_silence"
    broken = suite(tmp_path, "tests.mutants.output_faults:ShowsBanner", "--law", law, "--gap", f"{law}=it greets")
    assert (broken.returncode, counts(broken)) == (0, (0, 0, 1))
    assert "it greets" in broken.stdout
    sound = suite(tmp_path, "local", "--law", law, "--gap", f"{law}=it greets")
    assert (sound.returncode, counts(sound)) == (1, (0, 1, 0))


def test_a_law_that_hangs_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    """The watchdog ends one law, says where it hung, and the next law gets a fresh environment."""
    laws = ("test_absent_stdin_is_at_its_end", "test_the_streams_are_kept_apart", "test_exit_codes_come_back")
    chosen = [word for law in laws for word in ("--law", law)]
    hanging = "tests.mutants.stdin_faults:NoEndOfFile"
    done = suite(tmp_path, hanging, "--patience", "3", "--profile", "quick", *chosen)
    assert (done.returncode, counts(done)) == (1, (2, 1, 0))
    assert "it hangs here" in done.stdout


def test_a_failure_is_short_and_says_where(tmp_path: Path) -> None:
    """A failure names both digests, the first offset that differs and a few bytes, whatever the size."""
    lossy = "tests.mutants.output_faults:DecodesChunks"
    done = suite(tmp_path, lossy, "--profile", "quick", "--law", "test_a_flood_on_both_streams_is_whole")
    assert done.returncode == 1
    for part in ("expected 1048576 bytes sha256", "first difference at offset 128", "[80]"):
        assert part in done.stdout
    assert len(done.stdout) < 8000


SUBCLASS = """
from hermes_env_conformance import ConformanceSuite


class TestMine(ConformanceSuite):
    backend = "{backend}"
    profile = "quick"
    known_gaps = {gaps}
"""


def pytest_run(where: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest on a plugin author's own test file."""
    (where / "test_mine.py").write_text(text, encoding="utf-8")
    return python(where, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


def test_a_plugin_author_derives_one_class(tmp_path: Path) -> None:
    """Nine lines in a test file of one's own run the laws, and the last line is the count."""
    done = pytest_run(tmp_path, SUBCLASS.format(backend="local", gaps={}), "-k", "silence or streams_are_kept")
    assert (done.returncode, counts(done)) == (0, (2, 0, 0)), done.stdout
    gaps = {"test_silence_is_silence": "it greets"}
    text = SUBCLASS.format(backend="tests.mutants.output_faults:ShowsBanner", gaps=gaps)
    assert counts(pytest_run(tmp_path, text, "-k", "silence")) == (0, 0, 1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("    def test_silence_is_silence(self, lab): pass", "changes test_silence_is_silence"),
        ("    test_silence_is_silence = None", "changes test_silence_is_silence"),
        ("    lab = None", "changes lab"),
        ("    known_gaps = {'test_no_such_law': 'x'}", "names no law: test_no_such_law"),
        ("    known_gaps = {'test_silence_is_silence': ' '}", "gives no reason"),
    ],
)
def test_laws_cannot_be_changed(tmp_path: Path, line: str, problem: str) -> None:
    """A class that overrides or deletes a law, or names a gap that is none, does not even load."""
    done = pytest_run(tmp_path, SUBCLASS.format(backend="local", gaps={}) + line)
    assert done.returncode == 2
    assert problem in done.stdout


def test_a_law_patched_after_the_fact_fails(tmp_path: Path) -> None:
    """Replacing a law behind the class's back is found when it runs."""
    text = SUBCLASS.format(backend="local", gaps={}) + "TestMine.test_silence_is_silence = lambda self, lab: None"
    done = pytest_run(tmp_path, text, "-k", "silence or streams_are_kept")
    assert done.returncode == 1
    assert "laws cannot be overridden" in done.stdout


def test_the_plugin_runs_on_demand(tmp_path: Path) -> None:
    """`pytest -p hermes_env_conformance.plugin` runs chapters of a backend without any test file."""
    report = tmp_path / "report"
    wanted = ("--hermes-backend=local", "--hermes-profile=quick", "--hermes-chapter=lifecycle")
    done = python(
        *(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "hermes_env_conformance.plugin"),
        *(*wanted, f"--hermes-report={report}"),
    )
    assert done.returncode == 0, done.stdout
    assert counts(done)[1:] == (0, 0)
    laws = json.loads((report / "local.json").read_text(encoding="utf-8"))["laws"]
    assert {law["chapter"] for law in laws} == {"lifecycle"}


def test_the_schema_is_published(tmp_path: Path) -> None:
    """`--schema` prints the JSON schema of the report, and `--laws` states every law."""
    document = json.loads(suite(tmp_path, "--schema").stdout)
    assert {"laws", "capabilities", "proven_against", "versions"} <= set(document["properties"])
    stated = suite(tmp_path, "--laws").stdout
    assert all(name in stated and law.statement in stated for name, law in LAWS.items())


def test_reports_for_programs_and_people(tmp_path: Path) -> None:
    """Beside JSON there is JUnit with one case per law, and Markdown that names what denies a level."""
    laws = ("test_silence_is_silence", "test_exit_codes_come_back")
    chosen = [word for law in laws for word in ("--law", law)]
    done = suite(tmp_path, "tests.mutants.output_faults:ShowsBanner", *chosen, "--report", str(tmp_path / "r"))
    assert done.returncode == 1
    (xml,) = (tmp_path / "r").glob("*.xml")
    root = ET.parse(xml).getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {laws[0]: ["failure"], laws[1]: []}
    (page,) = (tmp_path / "r").glob("*.md")
    text = page.read_text(encoding="utf-8")
    assert "Level: **none**" in text
    assert "test_silence_is_silence: failed" in text
    assert all(LAWS[law].statement in text for law in laws)


def test_variants_run_what_they_could_break(tmp_path: Path) -> None:
    """`--variant` runs only the laws that are marked so."""
    report = tmp_path / "r"
    done = suite(tmp_path, "local", "--profile", "quick", "--variant", "--chapter", "output", "--report", str(report))
    assert done.returncode == 0
    names = {law["name"] for law in json.loads((report / "local.json").read_text(encoding="utf-8"))["laws"]}
    assert names == {law.name for law in LAWS.values() if law.chapter == "output" and law.variant}


def test_every_law_is_explained(tmp_path: Path) -> None:
    """`--explain` tells statement, reason and known faults; an unknown law is wrong usage with a hint."""
    done = suite(tmp_path, "--explain", "test_a_late_upload_is_erased")
    assert done.returncode == 0
    for part in (LAWS["test_a_late_upload_is_erased"].statement, "a late upload left where it landed", "staged: late"):
        assert part in done.stdout
    wrong = suite(tmp_path, "--explain", "test_a_late_upload_is_erase")
    assert wrong.returncode == 2
    assert "close: test_a_late_upload_is_erased" in wrong.stderr
