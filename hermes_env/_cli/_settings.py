"""Options of a backend from the command line, the environment and a file, and which of them each came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, SecretBytes, SecretStr

from hermes_env._errors import InvalidArgument
from hermes_env._options import options_from_environment, options_from_file, parse_options, parse_value, variable_name
from hermes_env._registry import load_backend

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment


@dataclass(frozen=True, slots=True)
class Settings:
    """What to open a backend with."""

    backend: type[BaseEnvironment]
    values: dict[str, Any] = field(repr=False)
    parsed: Any = field(repr=False)
    """The same as the backend's options model."""
    sources: dict[str, str]
    """Where each value came from."""

    def open(self) -> BaseEnvironment:
        """Start the environment; ``with`` closes it.

        Raises:
            BackendUnavailable: It cannot be made.
        """
        return self.backend(self.parsed).open()


def settle(name: str, given: Sequence[str], file: str | None) -> Settings:
    """Collect options: ``--option`` wins over the environment, which wins over the file.

    Raises:
        InvalidArgument: An option is unknown, malformed, or a secret that was given on the command line.
        BackendNotFound, BackendUnavailable: See `load_backend`.
    """
    if ":" in name:
        # A module in the author's own folder, as with ``python -m``; behind everything that is installed.
        sys.path.append(os.getcwd())
    backend = load_backend(name)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, found in (
        ("the options file", options_from_file(file) if file else {}),
        ("environment variable {}", options_from_environment(backend, name)),
        ("--option", _from_command_line(backend, name, given)),
    ):
        values.update(found)
        sources.update({option: source.format(variable_name(name, option)) for option in found})
    return Settings(backend, values, parse_options(backend, name, values), sources)


def _from_command_line(backend: type[BaseEnvironment], name: str, given: Sequence[str]) -> dict[str, Any]:
    found = {}
    for option, value in pairs("--option", given).items():
        annotation = _annotation(backend, option)
        if is_secret(annotation):
            raise InvalidArgument(f"option {option!r}", _refusal(name, option))
        found[option] = parse_value(value, annotation)
    return found


def pairs(argument: str, given: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping.

    Raises:
        InvalidArgument: One has another form. It is not repeated: it may be a mistyped secret.
    """
    found = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise InvalidArgument(argument, "must be NAME=VALUE")
        found[name] = value
    return found


def _refusal(name: str, option: str) -> str:
    variable = variable_name(name, option)
    return (
        "is a secret, and every process of this machine can read a command line: "
        f"set the environment variable {variable} or put it into a file for --options-file"
    )


def _annotation(backend: type[BaseEnvironment], option: str) -> Any:
    model = backend.Options
    known = model.model_fields.get(option) if model is not None else None
    return Any if known is None else known.annotation


def is_secret(annotation: Any) -> bool:
    """Whether a value of this type holds a secret, however deep."""
    return any(kind in (SecretStr, SecretBytes) for kind in _kinds(annotation))


def _kinds(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for known in annotation.model_fields.values():
            yield from _kinds(known.annotation)
        return
    yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)


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
