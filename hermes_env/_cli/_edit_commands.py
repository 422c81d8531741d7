"""The arguments of `hermes-env patch`, `edit`, `history`, `undo` and `recover`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from hermes_env._errors import InvalidArgument

Name = Annotated[str, typer.Argument(metavar="NAME", help="A backend (see `hermes-env backends`) or module:Class.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="K=V", help="Option of the backend; never a secret. Repeatable."),
]
OptionsFile = Annotated[
    str | None, typer.Option("--options-file", metavar="FILE", help="Options as TOML, or as JSON in a .json file.")
]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="Directory inside that edits stay in; the current one by default."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Confirm deletions and large edits.")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole outcome as JSON.")]
Color = Annotated[Literal["auto", "always", "never"], typer.Option("--color", help="Colours in the diff.")]


def patch(  # noqa: PLR0913, PLR0917 - the options of a command line
    name: Name,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="The patch; - is stdin.")] = "-",
    dry_run: DryRun = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Repair what has one meaning only.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Add and Move may replace files.")] = False,
    compat: Annotated[Literal["default", "codex", "hermes"], typer.Option("--compat")] = "default",
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of files that are not UTF-8.")] = None,
    yes: Yes = False,
    as_json: Json = False,
    color: Color = "auto",
    workspace: Workspace = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Apply a V4A patch (*** Begin Patch …): all of it or nothing. The diff goes to stdout."""
    from . import _edit

    text = _edit.read_text(file)
    with _edit.tools(name, option, options_file, workspace, yes=yes) as tools:
        outcome = tools.apply_patch(
            text, dry_run=dry_run, lenient=lenient, overwrite=overwrite, compat=compat, encoding=encoding
        )
    return _edit.tell(outcome, as_json=as_json, color=color)


def edit(  # noqa: PLR0913, PLR0917 - the options of a command line
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path inside the environment.")],
    old: Annotated[str | None, typer.Option("--old", metavar="TEXT", help="Text to replace, there once.")] = None,
    old_file: Annotated[str | None, typer.Option("--old-file", metavar="FILE", help="The same from a file.")] = None,
    new: Annotated[str | None, typer.Option("--new", metavar="TEXT", help="Text to write instead.")] = None,
    new_file: Annotated[str | None, typer.Option("--new-file", metavar="FILE", help="The same from a file.")] = None,
    replace_all: Annotated[bool, typer.Option("--replace-all", help="Replace every place.")] = False,
    insert_line: Annotated[
        int | None, typer.Option("--insert-line", metavar="N", min=0, help="Insert --new after line N instead.")
    ] = None,
    if_sha256: Annotated[str | None, typer.Option("--if-sha256", metavar="HEX", help="Only if it holds this.")] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of a file that is not UTF-8.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    color: Color = "auto",
    workspace: Workspace = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Replace a text that is in a file exactly once, or insert lines. Everything else stays, byte for byte."""
    from hermes_env._codec import decode_lossless

    from . import _edit

    before, after = _edit.text_of(old, old_file, "old"), _edit.text_of(new, new_file, "new")
    if (before is None) == (insert_line is None):
        raise InvalidArgument("--old", "or --insert-line is needed, and not both")
    inner = decode_lossless(path.encode("utf-8", "surrogateescape"))
    with _edit.tools(name, option, options_file, workspace, yes=yes) as tools:
        if insert_line is not None:
            outcome = tools.insert(
                inner, insert_line, after or "", encoding=encoding, if_sha256=if_sha256, dry_run=dry_run
            )
        else:
            outcome = tools.str_replace(
                inner, before or "", after or "", replace_all=replace_all, encoding=encoding, if_sha256=if_sha256,
                dry_run=dry_run,
            )  # fmt: skip
    return _edit.tell(outcome, as_json=as_json, color=color)


def history(
    name: Name,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show the last N attempts.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines, with all that was recorded.")] = False,
    workspace: Workspace = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Show what was edited from this machine, refusals too, oldest first."""
    from . import _edit

    with _edit.tools(name, option, options_file, workspace) as tools:
        return _edit.tell_history(tools.history(limit), as_json=as_json)


def undo(
    name: Name,
    edit_id: Annotated[str | None, typer.Argument(metavar="[EDIT]", help="The last one by default.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    color: Color = "auto",
    workspace: Workspace = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Put back what an edit changed, if its files are as it left them."""
    from . import _edit

    with _edit.tools(name, option, options_file, workspace) as tools:
        outcome = tools.undo(edit_id, dry_run=dry_run)
    return _edit.tell(outcome, as_json=as_json, color=color)


def recover(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Also edits whose client may still be at work.")] = False,
    workspace: Workspace = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Finish or undo edits whose client was killed, and remove what they left."""
    from . import _edit

    with _edit.tools(name, option, options_file, workspace) as tools:
        return _edit.tell_recovery(tools.recover(force=force))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (patch, edit, history, undo, recover):
        app.command()(command)
