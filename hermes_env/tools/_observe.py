"""Who is told after an edit. An observer that fails never fails the edit: it is reported."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.tools._model import EditOutcome
    from hermes_env.tools._result import FileChange


@dataclass(frozen=True, slots=True)
class EditEvent:
    """One edit, for observers and hooks."""

    edit_id: str
    tool: str
    changes: tuple[FileChange, ...]
    paths: tuple[str, ...]
    """Real paths inside the environment."""
    outcome: EditOutcome
    """Before the edit what it would do, afterwards what it did."""
    had_edits: bool = False
    """Another edit was applied by these tools before."""
    note: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


@runtime_checkable
class Observer(Protocol):
    """Is told of every applied edit."""

    name: str

    def after(self, event: EditEvent) -> Iterable[str] | None:
        """What is to be added to the outcome, one text per report."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of telling the observers."""

    fired: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


class Observers:
    """The observers of one `FileTools`, each of which can be switched off and on."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)
        self._off: set[str] = set()
        names = [observer.name for observer in self._all]
        if len(set(names)) != len(names):
            raise ValueError(f"observers need different names, not {', '.join(names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of those that are on."""
        return tuple(observer.name for observer in self._active())

    def disable(self, *names: str) -> None:
        """Tell these no more; all, when none is named."""
        self._off |= set(names or (observer.name for observer in self._all))

    def enable(self, *names: str) -> None:
        """Tell these again; all, when none is named."""
        self._off -= set(names or tuple(self._off))

    def _active(self) -> list[Observer]:
        return [observer for observer in self._all if observer.name not in self._off]

    def before(self, event: EditEvent) -> tuple[str, ...]:
        """Let those who compare look at the files before the edit; tells who failed."""
        failures = []
        for observer in self._active():
            look = getattr(observer, "before", None)
            if look is None:
                continue
            try:
                look(event)
            except Exception as error:  # noqa: BLE001 - an observer never fails the edit
                failures.append(_failure(observer, error))
        return tuple(failures)

    def after(self, event: EditEvent) -> Told:
        """Tell all."""
        fired, reports, failures = [], [], []
        for observer in self._active():
            try:
                said = observer.after(event)
                texts = [said] if isinstance(said, str) else list(said or ())
            except Exception as error:  # noqa: BLE001 - an observer never fails the edit
                failures.append(_failure(observer, error))
                continue
            fired.append(observer.name)
            reports += [f"{observer.name}: {text}" for text in texts]
        return Told(tuple(fired), tuple(reports), tuple(failures))


def _failure(observer: Observer, error: Exception) -> str:
    return f"observer {observer.name} failed: {type(error).__name__}: {error}"


_PLACE: Final = re.compile(r":\d+(:\d+)?|\bline \d+|\(\d+(,\d+)?\)")
_UNDER_WAY: Final = 64
"""Edits whose findings are remembered at a time."""
_MAX_REPORTED: Final = 20
"""More findings than these cost a model more than they tell."""


class Diagnostics:
    """Runs a checker in the environment before and after an edit and reports what is new.

    A finding is a line of its output; line numbers in it are not compared, since an edit moves lines.

    Args:
        env: Where the files are.
        command: Program and arguments; the paths of the edited files that exist follow.
        suffixes: Only files with these ends are checked; empty for all.
        timeout: Seconds for one run.
        name: What it is called in outcomes.
    """

    def __init__(
        self,
        env: BaseEnvironment,
        command: Sequence[str],
        *,
        suffixes: Sequence[str] = (),
        timeout: float = 60.0,
        name: str = "diagnostics",
    ) -> None:
        self.name = name
        self._env, self._command, self._timeout = env, tuple(command), timeout
        self._suffixes = tuple(suffixes)
        self._known: dict[str, Counter[str]] = {}

    def before(self, event: EditEvent) -> None:
        """Remember what is wrong already."""
        while len(self._known) >= _UNDER_WAY:
            # Left by edits that were not applied.
            self._known.pop(next(iter(self._known)), None)
        self._known[event.edit_id] = Counter(map(_without_place, self._run(event, new=False)))

    def after(self, event: EditEvent) -> list[str]:
        """Report what was not wrong before."""
        known = self._known.pop(event.edit_id, Counter[str]())
        fresh = []
        for line in self._run(event, new=True):
            kind = _without_place(line)
            if known[kind]:
                known[kind] -= 1
            else:
                fresh.append(line)
        more = len(fresh) - _MAX_REPORTED
        return fresh[:_MAX_REPORTED] + ([f"and {more} more"] if more > 0 else [])

    def _run(self, event: EditEvent, *, new: bool) -> list[str]:
        paths = [path for path in self._paths(event, new=new) if path.endswith(self._suffixes or ("",))]
        if not paths:
            return []
        result = self._env.exec([*self._command, *paths], timeout=self._timeout, merge_stderr=True)
        return [line for line in result.display.splitlines() if line.strip()]

    def _paths(self, event: EditEvent, *, new: bool) -> list[str]:
        missing = "delete" if new else "add"
        pairs: Any = zip(event.changes, event.paths, strict=True)
        return [path for change, path in pairs if change.kind != missing and not (change.kind == "move" and not new)]


def _without_place(line: str) -> str:
    return _PLACE.sub(":#", line)
