"""The laws that another shell could break, with one shell after the other as ``/bin/sh``."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from tests.slow import ALL

from .conftest import BOXED, boxed_shell

ESSENCE = ("test_the_end_of_output_is_exact", "test_every_content_is_written", "test_every_size_is_read")
"""A few of them, for the run that everyone waits for; HERMES_ENV_SLOW=1 runs all that are marked for variants."""
GAPS = {
    "zsh": {"test_death_by_signal_is_128_and_its_number": "zsh takes a hang-up for a request to exit, with status 1"},
    "yash": {
        "test_arguments_keep_their_boundaries": "yash cannot carry text that is not ASCII, which is refused by name",
        "test_a_script_is_posix_sh": "the same",
        "test_a_command_runs_in_its_directory": "the same",
        "test_variables_arrive_exactly": "the same",
        "test_every_name_works": "the same",
        "test_a_folder_is_sent_whole": "the same",
        "test_a_folder_is_fetched_whole": "the same",
    },
}
"""What a shell cannot do; a gap that holds after all fails the run."""


@pytest.mark.parametrize("label", BOXED if ALL else ["mksh", "yash"])
def test_variants(label: str) -> None:
    """Laws hold under every shell: a few, or all that a shell could break."""
    program = boxed_shell(label)
    gaps = [part for law, why in GAPS.get(label, {}).items() for part in ("--gap", f"{law}={why}")]
    chosen = [*gaps, "--variant"] if ALL else [part for law in ESSENCE for part in ("--law", law)]
    command = [sys.executable, "-m", "hermes_env_conformance", "tests.backends.boxed:BoxedEnvironment"]
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [*command, "--option", f"sh={program}", "--profile", "quick", "--workspace", place, *chosen],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = 36 - len(GAPS.get(label, {})) if ALL else len(ESSENCE)
    assert int(done.stdout.strip().splitlines()[-1].split()[0]) >= passed
