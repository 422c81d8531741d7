"""Writes down how each law ended, whichever way the suite is run."""

from __future__ import annotations

import platform
import sys
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ._law import NOT_APPLICABLE, Hung, Law, within
from ._observe import Observed, observe

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment

    from ._lab import Lab

Outcome = Literal["passed", "failed", "gap", "not_applicable"]

_KEY = "hermes_env_law"
_FRAMES = 4
_MESSAGE = 4000
"""Characters of one failure that are kept."""


@dataclass
class Entry:
    """How one law ended."""

    law: Law
    suite: str
    outcome: Outcome = "passed"
    message: str = ""
    duration: float = 0.0


@dataclass
class Subject:
    """What one class of laws was about."""

    suite: type
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    observed: Observed | None = None
    environment: str = ""
    declared: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """A pytest plugin that a suite registers when its first law is set up."""

    NAME = "hermes-env-conformance-recorder"

    def __init__(self, *, last_line: bool = True) -> None:
        self.entries: dict[str, Entry] = {}
        self.subjects: dict[str, Subject] = {}
        self._last_line = last_line

    @classmethod
    def of(cls, config: pytest.Config) -> Recorder:
        """The recorder of this pytest run."""
        found = config.pluginmanager.get_plugin(cls.NAME)
        if found is None:
            found = cls()
            config.pluginmanager.register(found, cls.NAME)
        assert isinstance(found, cls)
        return found

    def begin(self, item: pytest.Item, law: Law, suite: type) -> None:
        """A law is being set up."""
        item.user_properties.append((_KEY, law.name))
        self.entries[item.nodeid] = Entry(law, suite.__name__)
        self.subjects.setdefault(suite.__name__, Subject(suite))

    def observe(self, suite: type, lab: Lab) -> None:
        """Look once at what the environment declares and what it really can do; one that hangs shows nothing."""
        subject = self.subjects[suite.__name__]
        if subject.observed is None:
            subject.observed = Observed()
            try:
                within(lab.deadline, lambda: self._observe(subject, lab.env))
            except Hung:
                lab.abandon()

    @staticmethod
    def _observe(subject: Subject, env: BaseEnvironment) -> None:
        subject.environment = f"{type(env).__module__}:{type(env).__qualname__}"
        capabilities = env.capabilities
        subject.declared = {name: getattr(capabilities, name) for name in type(capabilities).__dataclass_fields__}
        subject.declared["stdin_mode"] = env.stdin_mode.value
        subject.observed = observe(env)

    # -- pytest's hooks -------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
        report = yield
        entry = self.entries.get(item.nodeid)
        if entry is not None:
            self._settle(entry, report, call)
        return report

    def _settle(self, entry: Entry, report: pytest.TestReport, call: pytest.CallInfo[Any]) -> None:
        entry.duration += report.duration
        if hasattr(report, "wasxfail") and report.skipped:
            entry.outcome, entry.message = "gap", f"{report.wasxfail}\n{_message(call)}"
        elif report.failed:
            first = "" if entry.outcome != "failed" else f"{entry.message}\n"
            entry.outcome, entry.message = "failed", first + (_message(call) or str(report.longrepr))
        elif report.skipped and entry.outcome == "passed":
            entry.outcome = "not_applicable"
            entry.message = str(getattr(call.excinfo, "value", "")).removeprefix(NOT_APPLICABLE)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run in which no law said anything is a failure."""
        if not self.counted() and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """The last line of the run."""
        if self._last_line:
            sys.__stdout__ and print(self.last_line(), file=sys.__stdout__, flush=True)

    # -- what came out --------------------------------------------------------------------------------------------

    def count(self, outcome: Outcome) -> int:
        """Laws that ended so."""
        return sum(entry.outcome == outcome for entry in self.entries.values())

    def counted(self) -> int:
        """Laws that said anything."""
        return len(self.entries) - self.count("not_applicable")

    def last_line(self) -> str:
        """``N passed, M failed, K gaps``."""
        return f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('gap')} gaps"


def _message(call: pytest.CallInfo[Any]) -> str:
    """The error of a law: its text, and where it was raised unless the law itself raised it on purpose."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return str(error)[:_MESSAGE]
    lines = traceback.format_exception_only(error)
    where = traceback.format_tb(error.__traceback__)[-_FRAMES:]
    return ("".join(lines) + "".join(where)).rstrip()[:_MESSAGE]


def versions() -> dict[str, str]:
    """What ran: names and versions of the software on this side."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("hermes-env", "pytest", "hypothesis"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def now() -> float:
    """A clock for durations."""
    return time.monotonic()
