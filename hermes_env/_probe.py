"""Questions about a provider that only its live service answers, and the dated record of the answers."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ._errors import HermesEnvError

Verdict = Literal["as expected", "differs", "not settled"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question of a backend about its provider.

    Attributes:
        name: Short, lower-case, with hyphens: it names the fact in records.
        question: What is asked, as a sentence.
        expected: The answer that the backend was built on.
        ask: Finds the answer, as a short text without secrets.
    """

    name: str
    question: str
    expected: str
    ask: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Settled:
    """A question and what came of it; fields as in `Probe`."""

    name: str
    question: str
    expected: str
    found: str
    """The answer, or why there is none."""
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True)
class Record:
    """All questions of one backend, on one day."""

    backend: str
    asked: str
    """When, as ISO 8601 in UTC."""
    versions: dict[str, str]
    """Of hermes-env, Python and the packages that the backend names."""
    facts: tuple[Settled, ...]

    @property
    def agrees(self) -> bool:
        """Whether every fact is settled and as expected."""
        return all(fact.verdict == "as expected" for fact in self.facts)


def settle(probe: Probe) -> Settled:
    """Ask one question; an error of the provider is no answer, and is told by its kind and text."""
    start = time.monotonic()
    try:
        found = probe.ask()
        verdict: Verdict = "as expected" if found == probe.expected else "differs"
    except (HermesEnvError, OSError, ValueError) as error:
        found, verdict = f"{type(error).__name__}: {error}", "not settled"
    except Exception as error:  # noqa: BLE001 - an SDK's own error, whose text may hold what was sent
        found, verdict = type(error).__name__, "not settled"
    return Settled(
        probe.name, probe.question, probe.expected, found, verdict, seconds=round(time.monotonic() - start, 3)
    )


def record(backend: str, probes: Sequence[Probe], packages: Sequence[str], told: Callable[[Settled], object]) -> Record:
    """Ask every question, one after the other.

    Args:
        backend: Its name.
        probes: The questions.
        packages: Distributions whose versions belong to the answers.
        told: Called with each fact as it is settled.
    """
    facts = []
    for probe in probes:
        facts.append(settle(probe))
        told(facts[-1])
    versions = {"hermes-env": importlib.metadata.version("hermes-env"), "python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Record(backend, datetime.now(UTC).isoformat(timespec="seconds"), versions, tuple(facts))
