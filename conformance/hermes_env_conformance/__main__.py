"""``python -m hermes_env_conformance NAME``: run the laws against one backend."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from hermes_env import BackendNotFound, BackendUnavailable, load_backend, options_from_arguments

from ._cells import coverage_table
from ._corpus import PROFILES
from ._explain import explain_law
from ._lab import WORKSPACE
from ._report import schema
from ._run import UNAVAILABLE, USAGE, run
from ._suite import CHAPTERS, LAWS


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.schema:
        print(json.dumps(schema(), indent=2))  # noqa: T201 - a command prints
        return 0
    if given.laws:
        for law in LAWS.values():
            print(f"{law.chapter:<10} {law.name}\n           {law.statement}")  # noqa: T201 - a command prints
        return 0
    if given.table:
        print(coverage_table())  # noqa: T201 - a command prints
        return 0
    if given.explain:
        return explain_law(given.explain)
    if given.name is None:
        parser.print_usage(sys.stderr)
        return USAGE
    try:
        options = options_from_arguments(load_backend(given.name), given.name, given.option)
        gaps = dict(_pair(text) for text in given.gap)
    except (BackendNotFound, ValueError) as error:
        print(f"usage: {error}", file=sys.stderr)  # noqa: T201 - a command prints
        return USAGE
    except BackendUnavailable as error:
        print(f"unavailable ({error.reason}): {error}", file=sys.stderr)  # noqa: T201 - a command prints
        return UNAVAILABLE
    return run(
        given.name,
        options=options,
        profile=given.profile,
        chapters=given.chapter,
        laws=given.law,
        known_gaps=gaps,
        report=given.report,
        patience=given.patience,
        workspace=given.workspace,
        against=given.against,
        variant=given.variant,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hermes_env_conformance",
        description="Prove that a backend keeps the contract.",
        epilog="Exit code: 0 held, 1 a law failed, 2 usage, 3 unavailable.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="backend: entry point name or module:Class")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="K=V",
        help="option of the backend; V may be JSON, never a secret",
    )
    parser.add_argument("--profile", choices=PROFILES, default="default")
    parser.add_argument("--chapter", action="append", default=[], help=f"only this one of: {', '.join(CHAPTERS)}")
    parser.add_argument("--law", action="append", default=[], metavar="NAME", help="only this law")
    parser.add_argument("--gap", action="append", default=[], metavar="LAW=REASON", help="a known gap")
    parser.add_argument("--report", metavar="DIR", help="write JSON, JUnit and Markdown reports there")
    parser.add_argument("--patience", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("--workspace", default=WORKSPACE, metavar="PATH", help="directory inside, for the laws' files")
    parser.add_argument("--against", metavar="TEXT", help="what this proves the backend against")
    parser.add_argument("--laws", action="store_true", help="list all laws and stop")
    parser.add_argument("--table", action="store_true", help="print the table of cancellation, in Markdown, and stop")
    parser.add_argument("--explain", metavar="LAW", help="what a law is for and what breaks it, and stop")
    parser.add_argument("--variant", action="store_true", help="only what another shell, image or user could break")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the report and stop")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        problem = f"{text!r} is not of the form NAME=VALUE"
        raise ValueError(problem)
    return name, value


if __name__ == "__main__":
    sys.exit(main())
