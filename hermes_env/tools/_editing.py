"""The way of every edit: look, check, plan, ask, keep, commit, prove, tell, record."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hermes_env import owner_labels
from hermes_env._errors import HermesEnvError
from hermes_env.tools._display import clean
from hermes_env.tools._journal import Journal
from hermes_env.tools._locks import ACTIVE, TURNS, key_of
from hermes_env.tools._model import EditOutcome
from hermes_env.tools._observe import EditEvent, Observers, Told
from hermes_env.tools._overlay import canonical
from hermes_env.tools._policy import CountedChange
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._steps import Stepper, Steps
from hermes_env.tools._store import HistoryEntry, HistoryFile, Store
from hermes_env.tools._transaction import Ended, Transaction, problem_of

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.files import HardLinks
    from hermes_env.tools._look import Looked, Place
    from hermes_env.tools._plan import Plan
    from hermes_env.tools._result import FileChange
    from hermes_env.tools._texts import Texts

Hook = Callable[[EditEvent], str | None]
Confirm = Callable[[EditEvent, tuple[str, ...]], bool]

_RECORDED: Final = 1 << 20
"""Characters of one argument that the record holds; a longer one is named by its length only."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one call of a tool wants."""

    tool: str
    arguments: Mapping[str, Any]
    paths: tuple[str, ...]
    access: Callable[[Looked], list[Problem]]
    """Why the policy refuses the paths."""
    plan: Callable[[Looked], Plan]
    dry_run: bool = False
    fresh: bool = False
    """A file that changed since it was read is not overwritten."""
    undoes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a `FileTools` was made with."""

    hooks: tuple[Hook, ...]
    confirm: Confirm | None
    note: str | None
    tags: Mapping[str, str]
    hardlinks: HardLinks
    state_dir: str | None
    keep_inside: bool
    """Backups stay inside the environment, not on this machine."""
    texts: Texts


@dataclass(slots=True)
class Memory:
    """What was read and written through these tools: digests by real path."""

    digests: dict[str, str] = field(default_factory=dict)
    had_edits: bool = False


class Editor:
    """Carries out requests."""

    def __init__(
        self, env: BaseEnvironment, place: Place, store: Store, observers: Observers, settings: Settings
    ) -> None:
        self._env, self._place, self._store = env, place, store
        self._observers, self._settings = observers, settings
        self._key = key_of(env)
        self.memory = Memory()

    def edit(self, request: Request) -> EditOutcome:
        """Carry out one request. What goes wrong stands in the outcome."""
        edit_id = new_id()
        try:
            outcome = self._edit(request, edit_id)
        except EditError as error:
            outcome = EditOutcome.refused(error.problems)
        except (HermesEnvError, OSError) as error:
            outcome = EditOutcome.refused([problem_of(error, "the files cannot be looked at: ")])
        return outcome if request.dry_run else self._record(request, edit_id, outcome)

    def refuse(self, request: Request, problems: Sequence[Problem]) -> EditOutcome:
        """Refuse a request before any file is looked at."""
        outcome = EditOutcome.refused(problems)
        return outcome if request.dry_run else self._record(request, new_id(), outcome)

    def _edit(self, request: Request, edit_id: str) -> EditOutcome:
        with ExitStack() as stack:
            since = stack.enter_context(TURNS.editing())
            looked = self._place.look(request.paths)
            reals = [name for path in looked.found for name in (looked.real(path), looked.place(path))]
            if stack.enter_context(TURNS.hold(self._key, reals, since)):
                looked = self._place.look(request.paths)
            problems = request.access(looked)
            if problems:
                return EditOutcome.refused(problems)
            plan = request.plan(looked)
            if plan.problems and not plan.changes:
                return EditOutcome.refused(plan.problems, warnings=plan.warnings)
            outcome = EditOutcome.planned(replace(plan, problems=()))
            if not plan.changes:
                return outcome.model_copy(update={"dry_run": request.dry_run})
            return self._change(request, edit_id, looked, plan, outcome)

    def _change(self, request: Request, edit_id: str, looked: Looked, plan: Plan, outcome: EditOutcome) -> EditOutcome:
        counted = [_counted(change) for change in plan.changes]
        problems = [*looked.policy.check_changes(counted), *self._stale(request, looked, plan.changes)]
        if problems:
            return EditOutcome.refused(problems, warnings=plan.warnings)
        steps = self._steps(looked, plan.changes)
        event = self._event(request, edit_id, looked, plan, outcome)
        # What an undo takes away is in the record, and the caller has asked for it by its id.
        reasons = () if request.undoes is not None else looked.policy.confirmation(counted)
        if request.dry_run:
            asked = [f"a confirmation will be asked for: {reason}" for reason in reasons]
            return outcome.model_copy(update={"warnings": [*outcome.warnings, *map(clean, asked)]})
        refusal = self._ask(event, reasons)
        if refusal is not None:
            return EditOutcome.refused([refusal], warnings=plan.warnings)
        failures = self._observers.before(event)
        ended = self._commit(edit_id, looked, steps, request.tool)
        if ended.status == "applied":
            self._remember(steps)
        return self._told(event, _result(outcome, ended, edit_id, plan.problems), failures)

    def _stale(self, request: Request, looked: Looked, changes: Sequence[FileChange]) -> list[Problem]:
        """What was read through these tools and is another now, or had to be read first."""
        strict = looked.policy.read_before_write and request.undoes is None
        problems = []
        for change in changes:
            if change.before is None or change.link:
                continue
            path = change.source or change.path
            known = self.memory.digests.get(looked.real(path))
            if known is None and strict:
                problems.append(Problem("policy_refused", self._settings.texts.not_read, path))
            elif known not in (None, change.before.sha256) and (strict or request.fresh):
                problems.append(Problem("stale", self._settings.texts.stale, path))
        return problems

    def _steps(self, looked: Looked, changes: Sequence[FileChange]) -> Steps:
        return Stepper(looked.found, hardlinks=self._settings.hardlinks).build(changes)

    def _event(self, request: Request, edit_id: str, looked: Looked, plan: Plan, outcome: EditOutcome) -> EditEvent:
        return EditEvent(
            edit_id,
            request.tool,
            plan.changes,
            tuple(looked.place(change.path) if change.link else looked.real(change.path) for change in plan.changes),
            outcome,
            self.memory.had_edits,
            self._settings.note,
            dict(self._settings.tags),
        )

    def _ask(self, event: EditEvent, reasons: tuple[str, ...]) -> Problem | None:
        """Ask the hooks, then whoever confirms."""
        for hook in self._settings.hooks:
            try:
                refusal = hook(event)
            except Exception as error:  # noqa: BLE001 - a hook that cannot tell refuses
                refusal = f"a hook failed: {type(error).__name__}: {error}"
            if refusal:
                return Problem("policy_refused", refusal)
        if not reasons:
            return None
        confirm, text = self._settings.confirm, "; ".join(reasons)
        if confirm is None:
            return Problem("confirmation_required", f"somebody must confirm this, and nobody is asked: {text}")
        try:
            agreed = confirm(event, reasons)
        except Exception as error:  # noqa: BLE001 - no answer is no
            return Problem("confirmation_required", f"asking failed: {type(error).__name__}: {error}")
        return None if agreed else Problem("confirmation_required", f"this was not confirmed: {text}")

    def _commit(self, edit_id: str, looked: Looked, steps: Steps, tool: str) -> Ended:
        labels = owner_labels(edit_id)
        journal = Journal(edit_id, time.time(), labels, tuple(steps.touched), tuple(steps.made), tool)
        state = state_directory(self._settings.state_dir, looked)
        inside = self._settings.keep_inside
        if not inside:
            try:
                self._store.keep(edit_id, journal.parts(short=True))
            except OSError as error:
                return Ended("refused", (problem_of(error, "the backup cannot be kept: "),))
        keep = f"{state}/{edit_id}.kept" if inside else None
        transaction = Transaction(self._env, steps, journal, f"{state}/{edit_id}.journal", keep=keep)
        ACTIVE.add(edit_id)
        ended = None
        try:
            ended = transaction.run()
        finally:
            ACTIVE.discard(edit_id)
            if ended is None or ended.status != "refused":
                TURNS.note(self._key, [touched.path for touched in steps.touched])
            if not inside and ended is not None and ended.status in ("refused", "rolled_back"):
                self._store.drop(edit_id)
        return ended

    def _remember(self, steps: Steps) -> None:
        self.memory.had_edits = True
        for touched in steps.touched:
            if touched.after_sha256 is None:
                self.memory.digests.pop(touched.path, None)
            else:
                self.memory.digests[touched.path] = touched.after_sha256

    def _told(self, event: EditEvent, outcome: EditOutcome, failures: tuple[str, ...]) -> EditOutcome:
        if outcome.status != "applied":
            return _with_reports(outcome, Told(), failures)
        told = self._observers.after(replace(event, outcome=outcome))
        return _with_reports(outcome, told, failures)

    def _record(self, request: Request, edit_id: str, outcome: EditOutcome) -> EditOutcome:
        """Append the attempt to the record; that it cannot be appended is a warning, the edit stands."""
        entry = HistoryEntry(
            edit_id,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            request.tool,
            {name: _recorded(value) for name, value in request.arguments.items()},
            outcome.status,
            outcome.ok,
            tuple(
                HistoryFile(file.path, file.operation, file.before_sha256, file.after_sha256)
                for file in outcome.changed_files
            ),
            None if outcome.error is None else outcome.error.model_dump(exclude_none=True),
            self._settings.note,
            dict(self._settings.tags),
            request.undoes,
        )
        try:
            self._store.note(entry)
        except OSError as error:
            text = clean(f"this attempt could not be recorded: {error}")
            return outcome.model_copy(update={"warnings": [*outcome.warnings, text]})
        return outcome


def new_id() -> str:
    """A new id, in the order of time."""
    return f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(4)}"


def state_directory(given: str | None, looked: Looked) -> str:
    """Where journals stand inside the environment: never in the workspace."""
    if given is not None:
        return given.rstrip("/")
    home, root = canonical(looked.survey.home), looked.policy.workspace
    inside = root is not None and (home == root or home.startswith(f"{root.rstrip('/')}/"))
    if home.strip("/") and home.startswith("/") and not inside:
        return f"{home}/.local/state/hermes-env/edits"
    return f"/tmp/.hermes-env-edits-{looked.survey.uid}"  # noqa: S108 - inside the environment; files are 0600


def _counted(change: FileChange) -> CountedChange:
    diff = change.diff()
    lines = {"delete": 1, "add": diff.added}.get(change.kind, diff.added + diff.removed)
    return CountedChange(change.path, change.kind, lines, len(change.after or b""))


def _recorded(value: object) -> object:
    """An argument as JSON can hold it; `Past.replay` reads it back."""
    if isinstance(value, bytes):
        return {"bytes": len(value)} if len(value) > _RECORDED else {"latin-1": value.decode("latin-1")}
    if isinstance(value, str) and len(value) > _RECORDED:
        return {"characters": len(value)}
    if isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair):
        return dict(value)
    return value if value is None or isinstance(value, str | int | float) else {"type": type(value).__name__}


def _result(outcome: EditOutcome, ended: Ended, edit_id: str, problems: Sequence[Problem]) -> EditOutcome:
    warnings = [*outcome.warnings, *map(clean, ended.warnings)]
    if ended.status == "applied":
        done = {"dry_run": False, "edit_id": edit_id, "stale_check": "passed", "warnings": warnings}
        if problems:
            # Operations commit one by one here: what came before the fault stays.
            refused = EditOutcome.refused(problems)
            done |= {"ok": False, "error": refused.error, "errors": refused.errors}
        return outcome.model_copy(update=done)
    refused = EditOutcome.refused(ended.problems, warnings=warnings)
    update: dict[str, Any] = {"status": ended.status, "left_changed": [clean(path) for path in ended.left]}
    if ended.status != "refused":
        update |= {"edit_id": edit_id, "stale_check": "passed"}
    return refused.model_copy(update=update)


def _with_reports(outcome: EditOutcome, told: Told, failures: Sequence[str]) -> EditOutcome:
    said = [clean(text) for text in (*failures, *told.failures)]
    if not said and not told.fired:
        return outcome
    return outcome.model_copy(
        update={
            "side_effects_fired": list(told.fired),
            "reports": [clean(text) for text in told.reports],
            "warnings": [*outcome.warnings, *said],
        }
    )
