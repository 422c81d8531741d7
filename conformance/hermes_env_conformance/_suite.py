"""The one class of laws: a plugin author derives from it and names a backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from hermes_env import BaseEnvironment, open_environment

from ._aio import AioLaws
from ._cancellation import CancellationLaws
from ._cancellation_faults import CancellationFaultLaws
from ._faults import Faults, HookFaults
from ._files import FileContentLaws
from ._files_names import FileNameLaws
from ._files_sequence import FileSequenceLaws
from ._files_trees import FileTreeLaws
from ._lab import WORKSPACE, Bench, Lab, Settings
from ._law import Law, laws_of
from ._lifecycle import LifecycleLaws
from ._oracle import InsideOracle, Oracle
from ._output import OutputLaws
from ._process import ProcessLaws
from ._record import Recorder
from ._secrecy import SecrecyLaws
from ._sessions import SessionLaws
from ._stdin import StdinLaws
from ._tools import ToolLaws

if TYPE_CHECKING:
    from ._corpus import Profile

_BENCH = pytest.StashKey[Bench]()


# pytest collects the last base first, so the chapters stand in reverse.
class ConformanceSuite(
    AioLaws,
    LifecycleLaws,
    CancellationFaultLaws,
    CancellationLaws,
    SecrecyLaws,
    SessionLaws,
    ToolLaws,
    FileTreeLaws,
    FileSequenceLaws,
    FileNameLaws,
    FileContentLaws,
    ProcessLaws,
    OutputLaws,
    StdinLaws,
):
    """All laws of the contract, for one backend.

    A plugin's own test file holds no more than::

        from hermes_env_conformance import ConformanceSuite

        class TestMine(ConformanceSuite):
            backend = "mine"
            options = {"image": "debian"}
            known_gaps = {"test_the_streams_are_kept_apart": "the SDK merges them"}
    """

    backend: ClassVar[str] = ""
    """Entry point name or ``module:Class``."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Options of the backend."""
    known_gaps: ClassVar[Mapping[str, str]] = {}
    """Laws that do not hold yet, each with the reason. A gap that holds after all fails the run."""
    oracle: ClassVar[Oracle] = InsideOracle()
    """Tells what really arrived; give one that looks from outside where that is possible."""
    profile: ClassVar[Profile] = "default"
    patience: ClassVar[float] = 30.0
    """Seconds within which something that has to happen must have happened."""
    workspace: ClassVar[str] = WORKSPACE
    """A directory inside the environment where the laws may work."""
    against: ClassVar[str | None] = None
    """What this run proves the backend against; None is live, today."""
    first: ClassVar[BaseEnvironment | None] = None
    """An environment that is open already, to be used first and then closed."""

    def open_environment(self, **settings: Any) -> BaseEnvironment:
        """Open one more environment of the backend."""
        return open_environment(self.backend, **{**self.options, **settings})

    def faults(self, env: BaseEnvironment) -> Faults:
        """Means to make commands of an environment go wrong on their way; give others for a provider's own ways."""
        return HookFaults(env)

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        check_laws(cls)

    @pytest.fixture
    def lab(self, request: pytest.FixtureRequest) -> Iterator[Lab]:
        """What the law works with; also marks a known gap and reports to the recorder."""
        check_laws(type(self))
        declared: Law = request.function.law
        recorder = Recorder.of(request.config)
        recorder.begin(request.node, declared, type(self))
        if reason := self.known_gaps.get(declared.name):
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        lab = Lab(self._bench(request), declared.name)
        recorder.observe(type(self), lab)
        yield lab
        lab.end()

    def _bench(self, request: pytest.FixtureRequest) -> Bench:
        """The environment that all laws of this class share, opened once and closed after the last."""
        node: pytest.Class = request.node.getparent(pytest.Class)
        if _BENCH not in node.stash:
            settings = Settings(self.profile, self.patience, self.workspace)
            bench = Bench(self.open_environment, self.oracle, settings, type(self).first, self.faults)
            node.stash[_BENCH] = bench
            node.addfinalizer(bench.close)
        return node.stash[_BENCH]


LAWS: Mapping[str, Law] = laws_of(ConformanceSuite)
"""Every law by name."""
CHAPTERS: tuple[str, ...] = tuple(dict.fromkeys(law.chapter for law in LAWS.values()))
"""The chapters, in the order in which they run."""
_FINAL = ("lab", "_bench", "__init_subclass__")


def check_laws(suite: type) -> None:
    """Refuse a class that changes a law or names a gap that is no law.

    Raises:
        TypeError: A law is overridden or deleted, or a known gap is unknown or has no reason.
    """
    changed = [name for name in LAWS if getattr(suite, name, None) is not getattr(ConformanceSuite, name)]
    changed += [name for name in _FINAL if _found(suite, name) is not _found(ConformanceSuite, name)]
    if changed:
        raise TypeError(
            f"{suite.__name__} changes {', '.join(changed)}: laws cannot be overridden; "
            f"a law that does not hold yet goes into known_gaps with its reason"
        )
    gaps: Mapping[str, str] = getattr(suite, "known_gaps", {})
    unknown = sorted(set(gaps) - set(LAWS))
    if unknown:
        raise TypeError(f"{suite.__name__}.known_gaps names no law: {', '.join(unknown)}")
    silent = sorted(name for name, reason in gaps.items() if not str(reason).strip())
    if silent:
        raise TypeError(f"{suite.__name__}.known_gaps gives no reason for: {', '.join(silent)}")


def _found(suite: type, name: str) -> object:
    for base in suite.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None
