"""Runs the laws against one backend and says how it went: what the command line and other programs call."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Collection, Mapping
from typing import IO, TYPE_CHECKING, Any

import pytest
from hypothesis.configuration import set_hypothesis_home_dir

from hermes_env import (
    BackendNotFound,
    BackendUnavailable,
    BaseEnvironment,
    HermesEnvError,
    InvalidArgument,
    open_environment,
)

from . import _report
from ._choice import choose_laws, make_suite
from ._collect import ENTRY, Collector
from ._lab import WORKSPACE
from ._record import Recorder

if TYPE_CHECKING:
    from ._corpus import Profile
    from ._oracle import Oracle

HELD, BROKEN, USAGE, UNAVAILABLE = 0, 1, 2, 3
"""Exit codes of a run."""
_MARKS = {"passed": ".", "failed": "F", "gap": "g", "not_applicable": "-"}


def run(  # noqa: PLR0913 - each is a choice of its own
    backend: str,
    *,
    options: Mapping[str, Any] | None = None,
    profile: Profile = "default",
    chapters: Collection[str] = (),
    laws: Collection[str] = (),
    known_gaps: Mapping[str, str] | None = None,
    report: str | None = None,
    patience: float = 30.0,
    workspace: str = WORKSPACE,
    against: str | None = None,
    oracle: Oracle | None = None,
    variant: bool = False,
    stream: IO[str] | None = None,
) -> int:
    """Run the suite; the last line printed is ``N passed, M failed, K gaps``.

    Args:
        backend: Entry point name or ``module:Class``.
        options: Options of the backend.
        profile: ``quick``, ``default`` or ``full``.
        chapters: Only these chapters.
        laws: Only these laws.
        known_gaps: Laws that do not hold yet, each with its reason.
        report: Directory for the reports (JSON and its schema, JUnit, Markdown).
        patience: Seconds within which something that has to happen must have happened; a law may take four times that.
        workspace: Directory inside the environment where the laws may work.
        against: What the backend is proven against; None is live, today.
        oracle: Tells what really arrived; None is another program inside.
        variant: Only the laws that another shell, image or user of a backend could break.
        stream: Where to print; None is standard output.

    Returns:
        0 all laws held, 1 a law failed, 2 wrong usage, 3 the backend is unavailable.
    """
    out = stream or sys.stdout
    try:
        chosen = choose_laws(chapters, laws, variant=variant)
        settings: dict[str, Any] = {
            "options": options,
            "profile": profile,
            "known_gaps": known_gaps,
            "patience": patience,
            "workspace": workspace,
            "against": against,
            "oracle": oracle,
        }
        make_suite(backend, **settings)
        first = open_environment(backend, **(options or {}))
    except (BackendNotFound, InvalidArgument) as error:
        return _say(out, f"usage: {error}", USAGE)
    except BackendUnavailable as error:
        return _say(out, f"unavailable ({error.reason}): {error}", UNAVAILABLE)
    except (HermesEnvError, OSError) as error:
        return _say(out, f"unavailable: {type(error).__name__}: {error}", UNAVAILABLE)
    return _run_open(first, backend, settings, chosen, report, out)


def _say(out: IO[str], message: str, code: int) -> int:
    print(message, file=out, flush=True)
    return code


def _run_open(
    first: BaseEnvironment,
    backend: str,
    settings: Mapping[str, Any],
    chosen: list[str],
    directory: str | None,
    out: IO[str],
) -> int:
    recorder = Recorder(last_line=False)
    suite = make_suite(backend, first=first, **settings)
    try:
        _pytest(suite, chosen, recorder, out)
    finally:
        first.close()
    reports = _report.build(recorder)
    _show(reports, directory, out)
    failed = recorder.count("failed") or not recorder.counted()
    return _say(out, recorder.last_line(), BROKEN if failed else HELD)


def _pytest(suite: type, chosen: list[str], recorder: Recorder, out: IO[str]) -> None:
    """Run pytest as an engine only: none of the user's settings, plugins or test files."""
    arguments = [
        *(str(ENTRY), f"--rootdir={ENTRY.parent}", f"--confcutdir={ENTRY.parent}", f"--config-file={os.devnull}"),
        *("--disable-plugin-autoload", "--capture=no", "--import-mode=importlib"),
        *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:logging"),
        *("-W", "error::ResourceWarning", "-W", "error::pytest.PytestUnraisableExceptionWarning"),
        *("-W", "error::pytest.PytestUnhandledThreadExceptionWarning"),
    ]
    added = {name: os.environ.pop(name) for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS") if name in os.environ}
    plugins = [Collector(suite, chosen), _Progress(recorder, out), recorder]
    frozen = gc.get_freeze_count()
    if not frozen:
        gc.freeze()  # Laws collect garbage to see what is held; what was there before them need not be looked at.
    try:
        # Hypothesis would leave a folder in the user's directory; it goes on without one where none can be made.
        set_hypothesis_home_dir(os.devnull)
        pytest.main(arguments, plugins=plugins)
    finally:
        os.environ.update(added)
        if not frozen:
            gc.unfreeze()


class _Progress:
    """One character per law, one line per chapter."""

    def __init__(self, recorder: Recorder, out: IO[str]) -> None:
        self._recorder, self._out, self._chapter = recorder, out, ""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Take part as the recorder that the suite looks for."""
        config.pluginmanager.unregister(self._recorder)
        config.pluginmanager.register(self._recorder, Recorder.NAME)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A law has ended."""
        entry = self._recorder.entries.get(nodeid)
        if entry is None:
            return
        if entry.law.chapter != self._chapter:
            self._out.write(f"{chr(10) if self._chapter else ''}{entry.law.chapter:<10} ")
            self._chapter = entry.law.chapter
        self._out.write(_MARKS[entry.outcome])
        self._out.flush()

    def pytest_sessionfinish(self) -> None:
        """End the line."""
        self._out.write("\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Nothing is collected silently wrong."""
        if report.failed:
            self._out.write(f"{report.longrepr}\n")


def _show(reports: list[_report.ConformanceReport], directory: str | None, out: IO[str]) -> None:
    from rich.console import Console

    console = Console(file=out, width=None if out.isatty() else 120)
    for one in reports:
        _report.show(one, console)
    if directory is not None:
        for path in _report.write(reports, directory):
            console.print(f"written: {path}", highlight=False, soft_wrap=True)
