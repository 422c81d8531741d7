"""`FileTools`: what an agent calls to read and change files in an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from hermes_env._errors import HermesEnvError
from hermes_env.files import HardLinks
from hermes_env.tools import _read
from hermes_env.tools._access import patch_access, path_access
from hermes_env.tools._arguments import checked
from hermes_env.tools._editing import Confirm, Editor, Hook, Request, Settings
from hermes_env.tools._locks import key_of
from hermes_env.tools._look import Place, refuse_unreadable, require_digest
from hermes_env.tools._observe import Observer, Observers
from hermes_env.tools._overlay import Missing, Snapshot
from hermes_env.tools._past import Past
from hermes_env.tools._plan import Plan, make_plan, paths_of
from hermes_env.tools._policy import FilePolicy
from hermes_env.tools._problem import EditError, Problem
from hermes_env.tools._replace import insert, str_replace
from hermes_env.tools._result import FileChange
from hermes_env.tools._store import Retention, Store, default_directory
from hermes_env.tools._text import UTF8_BOM, to_bytes
from hermes_env.tools._texts import Dialect, texts_for
from hermes_env.tools._v4a_parser import parse_patch

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment
    from hermes_env.tools._look import Looked
    from hermes_env.tools._model import EditOutcome
    from hermes_env.tools._read import ReadOutcome
    from hermes_env.tools._rules import Compat
    from hermes_env.tools._splice import Edit
    from hermes_env.tools._v4a_model import Patch


class FileTools(Past):
    """Reads and edits files of one environment. Thread-safe.

    No method raises for an edit that fails: the outcome says what went wrong, and then nothing was changed.

    Args:
        env: An open environment; only its public methods are used.
        policy: What may be read and written. Relative paths start at its workspace, or at the environment's
            directory when it has none.
        observers: Told after each applied edit; one that fails is reported and never fails the edit.
        before: Called before each edit with what it would do; a text returned, or an exception, refuses it.
        note: The caller's words for the record of this session.
        tags: The caller's own fields for the record.
        confirm: Asked with the reasons when the policy wants a confirmation; without it such edits are refused.
        backups: Where the original bytes of applied edits are kept: ``client`` (this machine) or ``environment``.
        store_dir: Directory of this machine for record and backups; None takes one below ``$XDG_STATE_HOME``.
        state_dir: Directory inside the environment for journals; None takes one below its home. Never put it into
            the workspace.
        retention: How many backups are kept on this machine.
        hardlinks: What a write does to a file with several names; see `Files.write_bytes`.
        dialect: Whose documented error texts to use.
        fifo_deadline: Seconds that a read waits for the writer of a FIFO.

    Raises:
        ValueError: An argument that has no meaning.
    """

    def __init__(  # noqa: PLR0913 - the settings of a session, keyword only
        self,
        env: BaseEnvironment,
        policy: FilePolicy | None = None,
        *,
        observers: Sequence[Observer] = (),
        before: Sequence[Hook] = (),
        note: str | None = None,
        tags: Mapping[str, str] | None = None,
        confirm: Confirm | None = None,
        backups: str = "client",
        store_dir: str | None = None,
        state_dir: str | None = None,
        retention: Retention | None = None,
        hardlinks: HardLinks = "keep",
        dialect: Dialect = "anthropic",
        fifo_deadline: float = 5.0,
    ) -> None:
        if backups not in ("client", "environment"):
            raise ValueError(f"backups must be client or environment, not {backups!r}")
        if hardlinks not in get_args(HardLinks):
            raise ValueError(f"hardlinks must be one of {', '.join(get_args(HardLinks))}, not {hardlinks!r}")
        if state_dir is not None and not state_dir.startswith("/"):
            raise ValueError(f"state_dir must be absolute, not {state_dir!r}")
        self._env = env
        self._place = Place(env.files, policy or FilePolicy())
        self._dialect, self._texts = dialect, texts_for(dialect)
        self._fifo_deadline = fifo_deadline
        self._state_dir, self._keep_inside = state_dir, backups == "environment"
        key = f"{env.backend_name}\n{key_of(env) if env.capabilities.reattach else ''}\n{self.policy.workspace}"
        self._store = Store(store_dir or default_directory(key), retention or Retention())
        self.observers = Observers(observers)
        """Which observers are told: `disable` and `enable` switch them."""
        self._editor = Editor(
            env,
            self._place,
            self._store,
            self.observers,
            Settings(
                hooks=tuple(before),
                confirm=confirm,
                note=note,
                tags=dict(tags or {}),
                hardlinks=hardlinks,
                state_dir=state_dir,
                keep_inside=self._keep_inside,
                texts=self._texts,
            ),
        )

    @property
    def policy(self) -> FilePolicy:
        """As it was given."""
        return self._place.policy

    @property
    def had_edits(self) -> bool:
        """An edit was applied through these tools."""
        return self._editor.memory.had_edits

    # -- reading --------------------------------------------------------------------------------------------------

    @checked
    def read_file(self, path: str, offset: int = 1, limit: int | None = None) -> ReadOutcome:
        """Read lines of a text file, as they are.

        Args:
            path: A file, directory or FIFO.
            offset: First line, from 1.
            limit: How many lines; None for all that fit.
        """
        last = None if limit is None else offset + max(limit, 1) - 1
        return self._show(path, offset, last, numbers=False)

    @checked
    def view(self, path: str, view_range: Sequence[int] | None = None) -> ReadOutcome:
        """Show a text file with line numbers, or the names in a directory.

        Args:
            path: A file, directory or FIFO.
            view_range: First and last line, from 1; -1 as the last one means the end.
        """
        first, last = (1, None) if view_range is None else tuple(view_range)[:2]
        return self._show(path, first, last, numbers=True)

    def _show(self, path: str, first: int, last: int | None, *, numbers: bool) -> ReadOutcome:
        try:
            return self._shown(path, first, last, numbers=numbers)
        except (EditError, HermesEnvError, OSError) as error:
            return _read.failed(path, error)

    def _shown(self, path: str, first: int, last: int | None, *, numbers: bool) -> ReadOutcome:
        looked = self._place.look([path])
        problems = path_access(looked, path, "read")
        if problems:
            raise EditError(*problems)
        found = looked.found[path]
        kind = None if found.stat is None else found.stat.kind
        if kind == "directory":
            return _read.show_directory(self._env, path, looked.real(path))
        if kind == "fifo":
            return _read.show_fifo(self._env, path, looked.real(path), self._fifo_deadline)
        state = looked.states[path]
        refuse_unreadable(state, path)
        if isinstance(state, Missing):
            raise EditError(Problem("not_found", self._texts.file_not_found(path), path))
        assert isinstance(state, Snapshot)
        self._editor.memory.digests[looked.real(path)] = state.sha256
        return _read.show_file(path, found, first, last, numbers=numbers)

    # -- editing one file -----------------------------------------------------------------------------------------

    @checked
    def write_file(
        self,
        path: str,
        content: str | bytes,
        *,
        if_sha256: str | None = None,
        encoding: str | None = None,
        dry_run: bool = False,
    ) -> EditOutcome:
        """Create a file, or replace its whole content; mode and a BOM are kept.

        Args:
            path: The file.
            content: Text, written as it is, or bytes.
            if_sha256: Only if the file has this digest now.
            encoding: Of the text; None is UTF-8.
            dry_run: Only tell what would change.
        """

        def edit(before: bytes | None) -> FileChange | bytes:
            data = content if isinstance(content, bytes) else to_bytes(content, None, encoding)
            text_with_bom = isinstance(content, str) and before is not None and before.startswith(UTF8_BOM)
            return UTF8_BOM + data if text_with_bom and not data.startswith(UTF8_BOM) else data

        arguments = {"path": path, "content": content, "if_sha256": if_sha256, "encoding": encoding}
        return self._edit_one("write_file", arguments, path, edit, if_sha256, dry_run=dry_run, fresh=True)

    @checked
    def str_replace(
        self,
        path: str,
        old_string: str,
        new_string: str = "",
        *,
        replace_all: bool = False,
        expected_count: int | None = None,
        lenient: bool = False,
        encoding: str | None = None,
        if_sha256: str | None = None,
        dry_run: bool = False,
    ) -> EditOutcome:
        """Replace a text that is in a file exactly once; everything else stays as it is, byte for byte.

        Args:
            path: The file.
            old_string: What to find; empty only to create a file.
            new_string: What to write instead, literally.
            replace_all: Replace every place.
            expected_count: Replace every place if there are exactly so many.
            lenient: If the text is nowhere, also ignore blanks at line ends and typographic punctuation.
            encoding: Of a file that is not UTF-8.
            if_sha256: Only if the file has this digest now.
            dry_run: Only tell what would change.
        """

        def edit(before: bytes | None) -> Edit:
            return str_replace(
                before,
                old_string,
                new_string,
                path=path,
                replace_all=replace_all,
                expected_count=expected_count,
                lenient=lenient,
                encoding=encoding,
                dialect=self._dialect,
            )

        arguments = {
            "path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all,
            "expected_count": expected_count, "lenient": lenient, "encoding": encoding, "if_sha256": if_sha256,
        }  # fmt: skip
        return self._edit_one("str_replace", arguments, path, edit, if_sha256, dry_run=dry_run)

    @checked
    def insert(
        self,
        path: str,
        insert_line: int,
        insert_text: str,
        *,
        encoding: str | None = None,
        if_sha256: str | None = None,
        dry_run: bool = False,
    ) -> EditOutcome:
        """Insert whole lines after a line; 0 is the start of the file.

        Args:
            path: The file.
            insert_line: After which line.
            insert_text: The lines.
            encoding: Of a file that is not UTF-8.
            if_sha256: Only if the file has this digest now.
            dry_run: Only tell what would change.
        """

        def edit(before: bytes | None) -> Edit:
            if before is None:
                raise EditError(Problem("not_found", self._texts.file_not_found(path), path))
            return insert(before, insert_line, insert_text, path=path, encoding=encoding)

        arguments = {
            "path": path, "insert_line": insert_line, "insert_text": insert_text, "encoding": encoding,
            "if_sha256": if_sha256,
        }  # fmt: skip
        return self._edit_one("insert", arguments, path, edit, if_sha256, dry_run=dry_run)

    def _edit_one(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        path: str,
        edit: Any,
        if_sha256: str | None,
        *,
        dry_run: bool,
        fresh: bool = False,
    ) -> EditOutcome:
        def plan(looked: Looked) -> Plan:
            state = looked.states[path]
            refuse_unreadable(state, path)
            now = state if isinstance(state, Snapshot) else None
            require_digest(path, now, if_sha256)
            return _one_file(path, now, edit(None if now is None else now.data))

        return self._editor.edit(
            Request(
                tool,
                arguments,
                (path,),
                lambda looked: path_access(looked, path, "write"),
                plan,
                dry_run=dry_run,
                fresh=fresh and if_sha256 is None,
            )
        )

    # -- patches --------------------------------------------------------------------------------------------------

    @checked
    def apply_patch(
        self,
        patch: str,
        *,
        dry_run: bool = False,
        lenient: bool = False,
        compat: Compat = "default",
        overwrite: bool = False,
        idempotent: bool = False,
        if_sha256: Mapping[str, str] | None = None,
        encoding: str | None = None,
        eol: str = "\n",
    ) -> EditOutcome:
        """Apply a V4A patch: all of it, or nothing.

        Args:
            patch: From ``*** Begin Patch`` to ``*** End Patch``; prose and fences around it are ignored.
            dry_run: Only tell what would change.
            lenient: Repair what has one meaning only.
            compat: ``codex`` or ``hermes`` follow those tools where the default is stricter.
            overwrite: Add and Move may replace existing files.
            idempotent: A hunk or file that is already there is no error.
            if_sha256: Digests that files must have now, by their path in the patch.
            encoding: Of files that are not UTF-8.
            eol: Line end of added files.
        """
        arguments = {
            "patch": patch, "lenient": lenient, "compat": compat, "overwrite": overwrite,
            "idempotent": idempotent, "if_sha256": if_sha256, "encoding": encoding, "eol": eol,
        }  # fmt: skip
        try:
            parsed = self._parsed(patch, lenient=lenient)
        except EditError as error:
            return self._refused("apply_patch", arguments, error.problems, dry_run=dry_run)

        def plan(looked: Looked) -> Plan:
            for path, digest in (if_sha256 or {}).items():
                state = looked.states.get(path)
                require_digest(path, state if isinstance(state, Snapshot) else None, digest)
            try:
                return make_plan(
                    parsed, looked.states, compat=compat, overwrite=overwrite, idempotent=idempotent,
                    encoding=encoding, eol=eol, environment_ids=self._ids(),
                )  # fmt: skip
            except EditError:
                raise
            except ValueError as error:
                raise EditError(Problem("invalid_argument", str(error))) from error

        paths = (*paths_of(parsed), *(if_sha256 or {}))
        return self._editor.edit(
            Request(
                "apply_patch",
                arguments,
                tuple(dict.fromkeys(paths)),
                lambda looked: patch_access(looked, parsed),
                plan,
                dry_run=dry_run,
            )
        )

    def _parsed(self, text: str, *, lenient: bool) -> Patch:
        problem = self.policy.check_patch_size(len(text.encode("utf-8", "surrogatepass")))
        if problem is not None:
            raise EditError(problem)
        return parse_patch(text, lenient=lenient, max_bytes=self.policy.max_patch_bytes)

    def _ids(self) -> set[str]:
        key = key_of(self._env)
        return {self._env.backend_name, *([key] if isinstance(key, str) else [])}


def _one_file(path: str, now: Snapshot | None, edit: Edit | bytes) -> Plan:
    """The plan for one file of which the new content is known."""
    after = edit if isinstance(edit, bytes) else edit.after
    if now is None:
        return Plan((FileChange("add", path, after),))
    if after == now.data:
        return Plan(unchanged=(path,))
    splices = None if isinstance(edit, bytes) else edit.splices
    return Plan((FileChange("update", path, after, now, mode=now.mode, splices=splices),))
