"""Options of a backend: checked by pydantic, filled from arguments, a file or the environment."""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ._errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._base import BaseEnvironment


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
    """Options given as ``HERMES_ENV_<BACKEND>_<OPTION>``; JSON where it is JSON, else text."""
    model = backend.Options
    if model is None:
        return {}
    prefix = f"HERMES_ENV_{name.upper().replace('-', '_')}_"
    found = {}
    for option in model.model_fields:
        value = os.environ.get(prefix + option.upper())
        if value is not None:
            found[option] = parse_value(value)
    return found


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


def parse_value(text: str) -> Any:
    """An option value given as text: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
