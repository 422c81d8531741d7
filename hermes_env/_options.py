"""Options of a backend: checked by pydantic, filled from arguments, a file or the environment."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr, ValidationError

from ._errors import InvalidArgument

if TYPE_CHECKING:
    from ._base import BaseEnvironment


_TEXT = (str, bytes, os.PathLike, SecretStr, SecretBytes)
_STRUCTURED = (list, tuple, set, frozenset, Mapping, BaseModel)


class BackendOptions(BaseModel):
    """Base of a backend's options: unknown names are refused, values never appear in error messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def parse_options(backend: type[BaseEnvironment], name: str, given: Mapping[str, Any]) -> Any:
    """Check options against the backend's model.

    Raises:
        InvalidArgument: An unknown option or a value of the wrong kind; names the option, never its value.
    """
    model = backend.Options
    if model is None:
        if given:
            raise InvalidArgument(f"option {min(given)!r}", f"backend {name!r} takes no options")
        return None
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        option = ".".join(str(part) for part in first["loc"]) or "options"
        known = ", ".join(sorted(model.model_fields))
        problem = f"unknown; backend {name!r} knows: {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise InvalidArgument(f"option {option!r}", problem) from None


def options_from_environment(backend: type[BaseEnvironment], name: str) -> dict[str, Any]:
    """Options given as ``HERMES_ENV_<BACKEND>_<OPTION>``; see `parse_value`."""
    model = backend.Options
    if model is None:
        return {}
    found = {}
    for option, field in model.model_fields.items():
        value = os.environ.get(variable_name(name, option))
        if value is not None:
            found[option] = parse_value(value, field.annotation)
    return found


def options_from_arguments(backend: type[BaseEnvironment], name: str, given: Sequence[str]) -> dict[str, Any]:
    """Options given as ``NAME=VALUE`` on a command line; see `parse_value`.

    Raises:
        InvalidArgument: One has another form, or is a secret: every process of the machine can read a command line.
    """
    found = {}
    for option, value in pairs("--option", given).items():
        annotation = _annotation(backend, option)
        if is_secret(annotation):
            problem = (
                "is a secret, and every process of this machine can read a command line: "
                f"set the environment variable {variable_name(name, option)} or put it into a file for --options-file"
            )
            raise InvalidArgument(f"option {option!r}", problem)
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


def variable_name(name: str, option: str) -> str:
    """The environment variable for one option; what no variable name can hold (``module:Class``) becomes ``_``."""
    return re.sub("[^A-Z0-9]", "_", f"HERMES_ENV_{name}_{option}".upper())


def options_from_file(path: str) -> dict[str, Any]:
    """Options from a TOML or JSON file.

    Raises:
        InvalidArgument: It cannot be read or parsed; its content is never shown.
    """
    try:
        with open(path, "rb") as file:
            data = json.load(file) if path.endswith(".json") else tomllib.load(file)
    except OSError as error:
        raise InvalidArgument("options file", f"{path}: {error.strerror}") from error
    except ValueError:
        raise InvalidArgument("options file", f"{path}: is neither valid TOML nor (named .json) valid JSON") from None
    if not isinstance(data, dict):
        raise InvalidArgument("options file", f"{path}: must hold a table of options")
    return data


def parse_value(text: str, annotation: Any = Any) -> Any:
    """An option value given as text, as its field takes it.

    A field for text gets it as it stands, so that a token of digits stays text; any other gets JSON where it is JSON.
    """
    kinds = [get_origin(kind) or kind for kind in _alternatives(annotation)]
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if not any(_is_a(kind, _TEXT) for kind in kinds):
        return value
    structured = isinstance(value, list | dict) and any(_is_a(kind, _STRUCTURED) for kind in kinds)
    return value if structured else text


def _is_a(kind: Any, bases: tuple[type, ...]) -> bool:
    return isinstance(kind, type) and issubclass(kind, bases)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The members of a union, else the annotation itself."""
    if get_origin(annotation) not in (Union, UnionType):
        yield annotation
        return
    for member in get_args(annotation):
        yield from _alternatives(member)
