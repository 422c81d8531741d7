"""Parameters that several commands take, each with one name, one help text and one meaning."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help="A backend (see `hermes-env backends`) or module:Class.")]
Where = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A backend, module:Class, or the ref of an environment: backend://identity."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="K=V", help="Option of the backend; never a secret. Repeatable."),
]
OptionsFile = Annotated[
    str | None, typer.Option("--options-file", metavar="FILE", help="Options as TOML, or as JSON in a .json file.")
]
Path = Annotated[str, typer.Argument(metavar="PATH", help="Path inside the environment.")]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="Directory inside that edits stay in; the current one by default."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Confirm deletions and large edits.")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole outcome as JSON.")]
Color = Annotated[Literal["auto", "always", "never"], typer.Option("--color", help="Colours in the diff.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of files that are not UTF-8.")]
