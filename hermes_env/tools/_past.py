"""What was done before: the record, undo, and recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_env._errors import HermesEnvError
from hermes_env.tools._access import path_access
from hermes_env.tools._arguments import checked
from hermes_env.tools._call import call
from hermes_env.tools._editing import Editor, Request, state_directory
from hermes_env.tools._journal import DamagedJournal, Journal, decode
from hermes_env.tools._plan import Plan
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._undo import Recoverer, Recovery, undo_plan

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.tools._filetools import FileTools
    from hermes_env.tools._look import Place
    from hermes_env.tools._model import EditOutcome
    from hermes_env.tools._read import ReadOutcome
    from hermes_env.tools._store import HistoryEntry, Store

_CUT: Final = object()


def _unrecorded(value: object) -> object:
    """An argument as it was before it was recorded."""
    if not isinstance(value, dict):
        return value
    if "bytes" in value or "characters" in value:
        return _CUT
    return str(value["latin-1"]).encode("latin-1") if "latin-1" in value else value


class Past:
    """The part of `FileTools` that looks back."""

    _env: BaseEnvironment
    _editor: Editor
    _place: Place
    _store: Store
    _state_dir: str | None
    _keep_inside: bool

    def call(self, name: str, arguments: Mapping[str, Any]) -> EditOutcome | ReadOutcome:
        """Call a tool as a model does: by a name of `tool_schemas` and arguments as JSON.

        Args:
            name: Also the names of Claude Code (``Edit``) and the Anthropic text editor with its ``command``.
            arguments: Other documented spellings (``old_str``, ``file_path``, …) are accepted.
        """
        return call(cast("FileTools", self), name, arguments)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Every attempt that the record holds, oldest first; the last `limit` of them."""
        entries = self._store.entries()
        return entries if limit is None else entries[max(len(entries) - limit, 0) :]

    def replay(self, entry: HistoryEntry, *, dry_run: bool = False) -> EditOutcome:
        """Do again what an attempt of a record did, here and now; undo and recovery are not replayed.

        Args:
            entry: From `history` of any tools.
            dry_run: Only tell what would change.
        """
        arguments = {name: _unrecorded(value) for name, value in entry.arguments.items()}
        if entry.tool not in ("apply_patch", "write_file", "str_replace", "insert") or _CUT in arguments.values():
            message = f"a recorded {entry.tool} of this kind cannot be replayed"
            problem = Problem("invalid_argument", message)
            return self._refused("replay", {"edit_id": entry.edit_id}, [problem], dry_run=dry_run)
        outcome: EditOutcome = getattr(self, entry.tool)(**arguments, dry_run=dry_run)
        return outcome

    @checked
    def undo(self, edit_id: str | None = None, *, dry_run: bool = False) -> EditOutcome:
        """Put back the bytes and modes that an applied edit found, if its files are as it left them.

        Args:
            edit_id: From its outcome; None takes the last applied edit that was not undone.
            dry_run: Only tell what would change.
        """
        arguments = {"edit_id": edit_id}
        try:
            chosen = edit_id if edit_id is not None else self._last_applied()
            journal = self._backup(chosen)
        except EditError as error:
            return self._refused("undo", arguments, error.problems, dry_run=dry_run)
        except (HermesEnvError, OSError) as error:
            return self._refused("undo", arguments, [Problem("not_found", f"the backup cannot be read: {error}")])
        outcome = self._editor.edit(
            Request(
                "undo",
                {"edit_id": chosen},
                tuple(touched.path for touched in journal.files),
                lambda looked: [
                    problem.at(path=touched.shown)
                    for touched in journal.files
                    for problem in path_access(
                        looked, touched.path, "write", shown=touched.shown, follow=not touched.is_link
                    )
                ],
                lambda looked: undo_plan(journal, looked),
                dry_run=dry_run,
                undoes=chosen,
            )
        )
        if outcome.status == "applied" and not dry_run:
            self._remove_made(journal)
        return outcome

    def _last_applied(self) -> str:
        entries = self._store.entries()
        undone = {entry.undoes for entry in entries if entry.undoes and entry.status == "applied"}
        for entry in reversed(entries):
            if entry.status == "applied" and entry.tool != "undo" and entry.edit_id not in undone:
                return entry.edit_id
        raise EditError(Problem("not_found", "no applied edit is left to undo"))

    def _backup(self, edit_id: str) -> Journal:
        if "/" in edit_id or "\0" in edit_id:
            raise EditError(Problem("invalid_argument", f"{edit_id!r} is no id of an edit"))
        data = self._store.backup(edit_id)
        try:
            if data is None and self._keep_inside:
                state = state_directory(self._state_dir, self._place.look(["."], contents=False))
                data = self._env.files.read_bytes(f"{state}/{edit_id}.kept")
            if data is not None:
                return decode(data)
        except FileNotFoundError:
            pass
        except DamagedJournal as error:
            raise EditError(Problem("not_found", f"the backup of edit {edit_id} is damaged: {error}")) from error
        raise EditError(Problem("not_found", f"there is no backup of an edit {edit_id}"))

    def _remove_made(self, journal: Journal) -> None:
        """Directories that the edit made and nobody uses go with it."""
        for directory in reversed(journal.made):
            try:
                self._env.files.remove(directory)
            except (OSError, HermesEnvError):
                return

    def recover(self, *, force: bool = False, dry_run: bool = False) -> Recovery:
        """Finish or undo edits whose client was killed or lost its link, and remove what they left.

        Args:
            force: Also edits whose client may still be at work, on another machine.
            dry_run: Only tell what would be done.

        Raises:
            HermesEnvError, OSError: The environment cannot be asked.
        """
        return Recoverer(self._env, self._place, self._state_dir).recover(force=force, dry_run=dry_run)

    def refuse_call(self, tool: str, arguments: Mapping[str, Any], problem: Problem, *, dry_run: bool) -> EditOutcome:
        """Refuse a call whose arguments do not fit, and record that."""
        return self._refused(tool, arguments, [problem], dry_run=dry_run)

    def _refused(
        self, tool: str, arguments: Mapping[str, Any], problems: Sequence[Problem], *, dry_run: bool = False
    ) -> EditOutcome:
        """A refusal before any file was looked at; it is recorded as every other one."""
        request = Request(tool, arguments, (), lambda _: [], lambda _: Plan(), dry_run=dry_run)
        return self._editor.refuse(request, problems)
