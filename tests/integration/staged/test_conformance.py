"""The laws, on the test backends that stage files, stream, or have command text alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ALL = os.environ.get("HERMES_ENV_SLOW") == "1"
ESSENCE = (
    "test_a_refused_dispatch_is_an_error",
    "test_empty_stdin_is_at_its_end",
    "test_stdin_that_nobody_reads_does_no_harm",
)
"""Laws for the run that everyone waits for; HERMES_ENV_SLOW=1 runs all, which takes minutes."""
EXPOSED = "command text is the only channel, and whoever reads command lines sees it"
GAPS = {
    "tests.backends.textonly:TextEnvironment": (
        "test_stdin_is_in_no_argument_list",
        "test_variables_are_in_no_argument_list",
        "test_variables_of_the_environment_are_in_no_argument_list",
        "test_file_content_is_in_no_argument_list",
        "test_what_a_session_keeps_is_in_no_argument_list",
    ),
    "tests.backends.uploads:UploadEnvironment": (),
    "tests.backends.streams:StreamEnvironment": (),
}
"""What a backend cannot do; a gap that holds after all fails the run."""


@pytest.mark.parametrize("backend", GAPS)
def test_laws_hold(backend: str, tmp_path: Path) -> None:
    """Every law but the known gaps holds, whichever way bytes and commands are carried."""
    gaps = [word for law in GAPS[backend] for word in ("--gap", f"{law}={EXPOSED}")]
    chosen = gaps if ALL else [word for law in ESSENCE for word in ("--law", law)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hermes_env_conformance", backend),
            *("--option", f"root={tmp_path}", "--profile", "quick", *chosen),
        ],
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    if not ALL:
        assert done.stdout.endswith("3 passed, 0 failed, 0 gaps\n")
