"""The arguments of `hermes-env patch`, `edit`, `history`, `undo` and `recover`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, TypeVar

import typer

from hermes_env._errors import InvalidArgument

from ._parameters import (  # noqa: TC001 - typer reads them
    Color,
    DryRun,
    Encoding,
    Json,
    Name,
    Options,
    OptionsFile,
    Path,
    Workspace,
    Yes,
)

if TYPE_CHECKING:
    from hermes_env.tools import EditOutcome, FileTools


@dataclass(frozen=True, slots=True)
class Place:
    """What all of these commands take: which environment, and where in it."""

    name: Name
    workspace: Workspace = None
    option: Options = None
    options_file: OptionsFile = None

    def tools(self, *, yes: bool = False) -> AbstractContextManager[FileTools]:
        """Tools there, for the time of a block."""
        from . import _edit

        return _edit.tools(self.name, self.option, self.options_file, self.workspace, yes=yes)


@dataclass(frozen=True, slots=True)
class Editing(Place):
    """What commands that edit take besides: whether they really do, and how it is told."""

    dry_run: DryRun = False
    as_json: Json = False
    color: Color = "auto"

    def tell(self, outcome: EditOutcome) -> int:
        """Print what was done; returns the exit code."""
        from . import _edit

        return _edit.tell(outcome, as_json=self.as_json, color=self.color)


_At = TypeVar("_At", bound=Place)


def _command(taken: type[_At]) -> Callable[[Callable[Concatenate[_At, ...], int]], Callable[..., int]]:
    """Let a command take the parameters of `taken` on the command line, and get them as one value."""

    def decorate(body: Callable[Concatenate[_At, ...], int]) -> Callable[..., int]:
        names = [field.name for field in fields(taken)]
        name, *shared = inspect.signature(taken, eval_str=True).parameters.values()
        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]

        @functools.wraps(body)
        def command(**given: Any) -> int:
            at = taken(**{name: given.pop(name) for name in names})
            return body(at, **given)

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (name, *own, *shared)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
        return command

    return decorate


@_command(Editing)
def patch(
    at: Editing,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The patch; - is stdin.")] = "-",
    lenient: Annotated[bool, typer.Option("--lenient", help="Repair what has one meaning only.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Add and Move may replace files.")] = False,
    compat: Annotated[Literal["default", "codex", "hermes"], typer.Option("--compat")] = "default",
    encoding: Encoding = None,
    yes: Yes = False,
) -> int:
    """Apply a V4A patch (*** Begin Patch …): all of it or nothing. The diff goes to stdout."""
    from . import _edit

    text = _edit.read_text(file)
    with at.tools(yes=yes) as tools:
        outcome = tools.apply_patch(
            text, dry_run=at.dry_run, lenient=lenient, overwrite=overwrite, compat=compat, encoding=encoding
        )
    return at.tell(outcome)


@_command(Editing)
def edit(
    at: Editing,
    path: Path,
    old: Annotated[str | None, typer.Option("--old", metavar="TEXT", help="Text to replace, there once.")] = None,
    old_file: Annotated[str | None, typer.Option("--old-file", metavar="FILE", help="The same from a file.")] = None,
    new: Annotated[str | None, typer.Option("--new", metavar="TEXT", help="Text to write instead.")] = None,
    new_file: Annotated[str | None, typer.Option("--new-file", metavar="FILE", help="The same from a file.")] = None,
    replace_all: Annotated[bool, typer.Option("--replace-all", help="Replace every place.")] = False,
    insert_line: Annotated[
        int | None, typer.Option("--insert-line", metavar="N", min=0, help="Insert --new after line N instead.")
    ] = None,
    if_sha256: Annotated[str | None, typer.Option("--if-sha256", metavar="HEX", help="Only if it holds this.")] = None,
    encoding: Encoding = None,
    yes: Yes = False,
) -> int:
    """Replace a text that is in a file exactly once, or insert lines. Everything else stays, byte for byte."""
    from hermes_env._codec import decode_lossless

    from . import _edit

    before, after = _edit.text_of(old, old_file, "old"), _edit.text_of(new, new_file, "new")
    if (before is None) == (insert_line is None):
        raise InvalidArgument("--old", "or --insert-line is needed, and not both")
    inner = decode_lossless(path.encode("utf-8", "surrogateescape"))
    with at.tools(yes=yes) as tools:
        if insert_line is not None:
            outcome = tools.insert(
                inner, insert_line, after or "", encoding=encoding, if_sha256=if_sha256, dry_run=at.dry_run
            )
        else:
            outcome = tools.str_replace(
                inner, before or "", after or "", replace_all=replace_all, encoding=encoding, if_sha256=if_sha256,
                dry_run=at.dry_run,
            )  # fmt: skip
    return at.tell(outcome)


@_command(Place)
def history(
    at: Place,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show the last N attempts.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines, with all that was recorded.")] = False,
) -> int:
    """Show what was edited from this machine, refusals too, oldest first."""
    from . import _edit

    with at.tools() as tools:
        return _edit.tell_history(tools.history(limit), as_json=as_json)


@_command(Editing)
def undo(
    at: Editing,
    edit_id: Annotated[str | None, typer.Argument(metavar="[EDIT]", help="The last one by default.")] = None,
) -> int:
    """Put back what an edit changed, if its files are as it left them."""
    with at.tools() as tools:
        outcome = tools.undo(edit_id, dry_run=at.dry_run)
    return at.tell(outcome)


@_command(Place)
def recover(
    at: Place,
    force: Annotated[bool, typer.Option("--force", help="Also edits whose client may still be at work.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what was left, and change nothing.")] = False,
) -> int:
    """Finish or undo edits whose client was killed, and remove what they left."""
    from . import _edit

    with at.tools() as tools:
        return _edit.tell_recovery(tools.recover(force=force, dry_run=dry_run), dry_run=dry_run)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (patch, edit, history, undo, recover):
        app.command()(command)
