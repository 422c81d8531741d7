"""The commands of `hermes-env` and their arguments."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from importlib import import_module
from typing import Annotated, Literal

import typer

from hermes_env._codec import decode_lossless
from hermes_env._errors import BackendUnavailable
from hermes_env._registry import list_backends

from . import _edit_commands, _failure, _mcp, _standard
from ._parameters import Name, Options, OptionsFile, Path, Where  # noqa: TC001 - typer reads them

app = typer.Typer(
    name="hermes-env",
    help="Run commands and move file bytes in any execution environment, and prove that every byte arrived.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 backend unavailable, 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
)

Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Working directory inside.")]


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"hermes-env {importlib.metadata.version('hermes-env')}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    del version


def run(argv: list[str]) -> int:
    """Run one command line; returns its exit code, and prints one line for whatever goes wrong."""
    _standard.park()
    signals = _failure.Signals()
    in_exec = argv[:1] == ["exec"]
    try:
        code = _called(argv)
        sys.stdout.flush()
    except typer.TyperException as error:
        _failure.say(f"error: {error.format_message()} (see: hermes-env {argv[0]} --help)")
        return _failure.EXEC_FAILED if in_exec else _failure.USAGE
    except (_failure.OutputClosed, BrokenPipeError):
        return _failure.OUTPUT_CLOSED
    except (KeyboardInterrupt, typer.Abort):
        return signals.exit_code
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "rich":
            raise
        return _failure.fail(error, in_exec=in_exec)
    except Exception as error:  # noqa: BLE001 - people get one line and a way to see the rest
        return _failure.fail(error, in_exec=in_exec)
    finally:
        _standard.settle()
    # An interrupt comes back as exit code 130, whichever signal it was.
    return code if signals.number is None else signals.exit_code


def _called(argv: list[str]) -> int:
    try:
        return int(app(args=argv, prog_name="hermes-env", standalone_mode=False) or 0)
    except typer.TyperException as error:
        if argv:
            raise
        sys.stdout.write(error.format_message() + "\n")
        return _failure.USAGE


def _text(argument: str) -> str:
    """A command-line argument as the core's lossless text, whatever the locale made of it."""
    return decode_lossless(os.fsencode(argument))


@app.command()
def backends(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with every capability.")] = False,
) -> int:
    """List the installed backends: how stdin travels, what isolates, what is missing."""
    from . import _listing

    found = list_backends()
    (_listing.show_json if as_json else _listing.show_table)(found)
    return 0


@app.command()
def doctor(name: Where, option: Options = None, options_file: OptionsFile = None) -> int:
    """Open an environment and tell what is in it: shell, hashers, tools, capabilities, where options came from."""
    from ._doctor import examine
    from ._settings import settle

    settings = settle(name, option or (), options_file)
    with settings.open() as env:
        return examine(env, name, settings)


@app.command(
    epilog="Exit codes: the command's own; 128+N died by signal N; 124 timeout; 125 hermes-env itself failed; "
    "130 interrupted."
)
def exec(  # noqa: A001 - the name of the command
    name: Where,
    argv: Annotated[list[str] | None, typer.Argument(metavar="-- ARGV...", help="Program and arguments.")] = None,
    script: Annotated[
        str | None, typer.Option("--script", metavar="TEXT", help="POSIX sh text; ARGV are then its $1, $2, …")
    ] = None,
    option: Options = None,
    options_file: OptionsFile = None,
    cwd: Cwd = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME", help="Pass this variable on. Repeatable.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="User to run as.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Kill the whole tree after this time.")
    ] = None,
    no_stdin: Annotated[bool, typer.Option("--no-stdin", help="Give the command an empty stdin.")] = False,
) -> int:
    """Run a command. stdin, output and exit code pass through byte for byte; Ctrl-C ends its whole tree."""
    from ._exec import execute, program_of
    from ._settings import settle, variables

    program = program_of([_text(part) for part in argv or ()], None if script is None else _text(script))
    passed = {key: _text(value) for key, value in variables(env or ()).items()}
    settings = settle(name, option or (), options_file)
    with settings.open() as environment:
        return execute(
            environment,
            program,
            cwd=None if cwd is None else _text(cwd),
            variables=passed,
            user=user,
            timeout=timeout,
            with_stdin=not no_stdin,
        )


@app.command()
def read(name: Where, path: Path, option: Options = None, options_file: OptionsFile = None) -> int:
    """Copy a file to stdout. Exit code 0 says that every byte was verified; until then trust none of them."""
    from ._settings import settle
    from ._transfer import read_file

    settings = settle(name, option or (), options_file)
    with settings.open() as env:
        return read_file(env, _text(path))


@app.command()
def write(
    name: Where,
    path: Path,
    mode: Annotated[str | None, typer.Option("--mode", metavar="OCTAL", help="Permissions, for example 0644.")] = None,
    make_parents: Annotated[bool, typer.Option("--make-parents", help="Make missing directories.")] = False,
    if_sha256: Annotated[
        str | None, typer.Option("--if-sha256", metavar="HEX", help="Only if the file holds this now.")
    ] = None,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Write stdin to a file, all or nothing, and tell on stderr how that was verified."""
    from ._settings import settle
    from ._transfer import octal, write_file

    bits = octal(mode)
    settings = settle(name, option or (), options_file)
    with settings.open() as env:
        return write_file(env, _text(path), mode=bits, make_parents=make_parents, if_sha256=if_sha256)


@app.command()
def cp(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file or folder: NAME:PATH, or one of this machine.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The copy itself; with / at its end, a folder for it.")
    ],
    make_parents: Annotated[bool, typer.Option("--make-parents", help="Make missing directories above it.")] = False,
    option: Options = None,
    options_file: OptionsFile = None,
) -> int:
    """Copy a file or folder into or out of an environment. What is there already, by its digest, is not sent again.

    NAME is a backend (see `hermes-env backends`), module:Class, or a ref such as docker://identity.
    Write ./a:b for a local name with a colon.
    """
    from ._copy import copy, route
    from ._settings import settle

    way = route(_text(source), _text(target))
    settings = settle(way.backend, option or (), options_file)
    with settings.open() as env:
        return copy(env, way, make_parents=make_parents)


@app.command()
def probe(
    name: Name,
    option: Options = None,
    options_file: OptionsFile = None,
    report: Annotated[str | None, typer.Option("--report", metavar="DIR", help="Write a dated record there.")] = None,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=1.0, help="What one question may take.")
    ] = 60.0,
) -> int:
    """Open one environment and ask its provider, live, what the backend was built on; 1 when something differs."""
    from ._probe import examine
    from ._settings import settle

    settings = settle(name, option or (), options_file).require_backend()
    with settings.open() as env:
        return examine(env, name, report, patience)


@app.command()
def reap(name: Name, option: Options = None, options_file: OptionsFile = None) -> int:
    """Remove what ended programs of this machine left at a provider, and nothing else; prints what was removed."""
    from hermes_env._registry import reap as reap_backend

    from ._settings import settle

    settings = settle(name, option or (), options_file).require_backend()
    removed = reap_backend(name, **settings.values)
    sys.stdout.writelines(f"{ident}\n" for ident in removed)
    _failure.say(f"removed {len(removed)} of {name}")
    return 0


@app.command(name="new-backend")
def new_backend(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the backend: lower-case letters, digits, _.")],
    folder: Annotated[
        str | None, typer.Option("--dir", metavar="DIR", help="Where to write it; default: hermes-env-NAME here.")
    ] = None,
) -> int:
    """Write a plugin project: package, tests and README. It passes its own conformance test at once."""
    from ._scaffold import write_project

    for path in write_project(name, folder):
        sys.stdout.write(f"{path}\n")
    return 0


def _load_suite() -> None:
    """Import the suite.

    Raises:
        BackendUnavailable: It is not installed.
    """
    # As pytest, its other engine runs without the plugins of whatever else is installed.
    name = "HYPOTHESIS_NO_PLUGINS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        import_module("hermes_env_conformance")
    except ModuleNotFoundError as error:
        problem = f"the suite needs {error.name}, which is not installed: pip install 'hermes-env[conformance]'"
        raise BackendUnavailable(problem, reason="not_installed") from error
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@app.command()
def conformance(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A backend, or module:Class.")] = None,
    option: Options = None,
    options_file: OptionsFile = None,
    profile: Annotated[Literal["quick", "default", "full"], typer.Option("--profile")] = "default",
    chapter: Annotated[list[str] | None, typer.Option("--chapter", metavar="CHAPTER", help="Repeatable.")] = None,
    law: Annotated[list[str] | None, typer.Option("--law", metavar="LAW", help="Only this one. Repeatable.")] = None,
    gap: Annotated[
        list[str] | None, typer.Option("--gap", metavar="LAW=REASON", help="A known gap; it must fail. Repeatable.")
    ] = None,
    report: Annotated[str | None, typer.Option("--report", metavar="DIR", help="Write reports there.")] = None,
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Directory inside, where the laws may work.")
    ] = "/tmp",  # noqa: S108 - inside the environment, where the laws make private directories of their own
    variant: Annotated[
        bool, typer.Option("--variant", help="Only what another shell, image or user could break.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="LAW", help="Say what a law is for and what breaks it, and stop.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="TEXT", help="What this is proven against.")
    ] = None,
) -> int:
    """Run the conformance suite. Exit codes: 0 held, 1 a law failed, 2 wrong usage, 3 backend unavailable."""
    from hermes_env._options import pairs

    from ._settings import settle

    _load_suite()
    from hermes_env_conformance import explain_law
    from hermes_env_conformance import run as run_suite

    if explain is not None:
        return explain_law(explain)
    if name is None:
        raise typer.BadParameter("name a backend, or a law with --explain")
    return run_suite(
        name,
        options=settle(name, option or (), options_file).require_backend().values,
        profile=profile,
        chapters=chapter or (),
        laws=law or (),
        known_gaps=pairs("--gap", gap or ()),
        report=report,
        workspace=workspace,
        against=against,
        variant=variant,
    )


_edit_commands.register(app)
_mcp.register(app)
