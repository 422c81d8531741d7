"""Finds the two halves of a token, and says of each where it came from."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ._options import ModalOptions

_HELP = "make a token with `modal token new`, or at https://modal.com/settings/tokens"


@dataclass(frozen=True, slots=True)
class Token:
    """Both halves of a token."""

    ident: str = field(repr=False)
    secret: str = field(repr=False)
    source: str
    """Where they came from, in words."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One place where a token may be."""

    name: str
    halves: tuple[str | None, str | None] = field(repr=False)
    """Id and secret; None where the place does not have it, empty where it has an empty one."""
    names: tuple[str, str]
    """What the halves are called there."""


def find(options: ModalOptions) -> Token:
    """The token that the first place has: options, environment, configuration file.

    Halves of different places are never put together: they hardly ever belong to one token, and the error of the
    service would not say so.

    Raises:
        BackendUnavailable: There is none, or a half of it is missing; the message says which, and where the other is.
    """
    given = _Source("options", (_text(options.token_id), _text(options.token_secret)), ("token_id", "token_secret"))
    names = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
    environment = _Source("the environment", (os.environ.get(names[0]), os.environ.get(names[1])), names)
    for source in (given, environment):
        if source.halves != (None, None):
            return _whole(source)
    file = _file()
    if file.halves != (None, None):
        return _whole(file)
    looked = f"options token_id and token_secret, {names[0]} and {names[1]}, {file.name}"
    raise BackendUnavailable(f"no Modal credentials (looked at {looked}): {_HELP}", reason="no_credentials")


def _whole(source: _Source) -> Token:
    ident, secret = ((half or "").strip() for half in source.halves)
    if ident and secret:
        return Token(ident, secret, source.name)
    missing, index = (("id", 0) if not ident else ("secret", 1)) if ident or secret else ("id and secret", 0)
    if missing == "id and secret":
        problem = f"{' and '.join(source.names)} are empty in {source.name}"
    else:
        state = "missing" if source.halves[index] is None else "empty"
        other = source.names[1 - index]
        problem = f"{source.names[index]} is {state}; the other half, {other}, comes from {source.name}"
    hint = "both halves must come from one place; unset the one that is there to use the next place"
    raise BackendUnavailable(f"no Modal credentials: token {missing}: {problem} ({hint})", reason="no_credentials")


def _text(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _file() -> _Source:
    """What the profile in use has in the SDK's own configuration file."""
    path = os.environ.get("MODAL_CONFIG_PATH") or os.path.expanduser("~/.modal.toml")
    profiles = _profiles(path)
    active = next((name for name, entry in profiles.items() if entry.get("active") is True), "default")
    profile = os.environ.get("MODAL_PROFILE") or active
    entry = profiles.get(profile, {})
    halves = (entry.get("token_id"), entry.get("token_secret"))
    texts = tuple(half if isinstance(half, str) else None for half in halves)
    return _Source(f"profile {profile!r} of {path}", (texts[0], texts[1]), ("token_id", "token_secret"))


def _profiles(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        # The text of a parse error may quote the file.
        problem = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is not valid TOML"
        message = f"no Modal credentials: {path} cannot be read ({problem}): {_HELP}"
        raise BackendUnavailable(message, reason="no_credentials") from None
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)}
