"""Options of a backend from the command line, the environment and a file, and which of them each came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_env._errors import InvalidArgument
from hermes_env._options import (
    options_from_arguments,
    options_from_environment,
    options_from_file,
    parse_options,
    variable_name,
)
from hermes_env._registry import load_backend, locate, split_ref

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment


@dataclass(frozen=True, slots=True)
class Settings:
    """What to open a backend with."""

    name: str
    backend: type[BaseEnvironment]
    values: dict[str, Any] = field(repr=False)
    parsed: Any = field(repr=False)
    """The same as the backend's options model."""
    sources: dict[str, str]
    """Where each value came from."""
    ident: str | None = None
    """What to join instead of opening one of our own."""

    def open(self) -> BaseEnvironment:
        """Start the environment, or join the one that was named; ``with`` closes it or lets go of it.

        Raises:
            BackendUnavailable: It cannot be made or reached.
            EnvironmentGone, Unsupported: It cannot be joined.
        """
        env = self.backend(self.parsed)
        env.backend_name = self.name
        return env.open() if self.ident is None else env.join(self.ident)

    def require_backend(self) -> Settings:
        """These settings, for what works on a backend as such.

        Raises:
            InvalidArgument: They name one environment of it.
        """
        if self.ident is not None:
            raise InvalidArgument("NAME", f"must be a backend, not one environment of it: give {self.name}")
        return self


def settle(where: str, given: Sequence[str], file: str | None) -> Settings:
    """Collect options: ``--option`` wins over the environment, which wins over the file.

    Args:
        where: A backend, ``module:Class``, or the ref of an environment.
        given: NAME=VALUE texts of the command line.
        file: Path of an options file.

    Raises:
        InvalidArgument: An option is unknown, malformed, or a secret that was given on the command line.
        BackendNotFound, BackendUnavailable: See `load_backend`.
    """
    name, ident = split_ref(where) if "://" in where else (where, None)
    if ":" in name:
        # A module in the author's own folder, as with ``python -m``; behind everything that is installed.
        sys.path.append(os.getcwd())
    backend = load_backend(name)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, found in (
        ("the options file", options_from_file(file) if file else {}),
        ("environment variable {}", options_from_environment(backend, name)),
        ("--option", options_from_arguments(backend, name, given)),
    ):
        values.update(found)
        sources.update({option: source.format(variable_name(name, option)) for option in found})
    if ident is not None:
        located = locate(backend, ident, found)
        values.update(located)
        sources.update(dict.fromkeys(located, "the ref"))
    return Settings(name, backend, values, parse_options(backend, name, values), sources, ident)


def variables(names: Sequence[str]) -> dict[str, str]:
    """Values of these variables of the caller's environment, for the command.

    Raises:
        InvalidArgument: One is not set, or was written as NAME=VALUE.
    """
    found = {}
    for name in names:
        if "=" in name:
            shown = name.partition("=")[0]
            problem = f"takes a name only: its value comes from your environment (export {shown} first)"
            raise InvalidArgument(f"--env {shown}", problem)
        if name not in os.environ:
            raise InvalidArgument(f"--env {name}", "is not set in your environment: export it first")
        found[name] = os.environ[name]
    return found
