"""By whose credentials: arguments first, then what the SDK finds in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_env import BackendUnavailable

from . import _sdk

if TYPE_CHECKING:
    from ._options import VercelOptions

MISSING = (
    "no Vercel credentials: run `vercel link && vercel env pull` and set VERCEL_OIDC_TOKEN from .env.local, or make a "
    "token at https://vercel.com/account/settings/tokens and give it as VERCEL_TOKEN with VERCEL_TEAM_ID and "
    "VERCEL_PROJECT_ID, or as the options token, team and project"
)
_OIDC, _OIDC_FILE, _TOKEN = "VERCEL_OIDC_TOKEN", "VERCEL_OIDC_TOKEN_FILE", "VERCEL_TOKEN"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token, what it is for, and where it came from."""

    token: str = field(repr=False)
    team: str
    project: str
    source: str


def find(options: VercelOptions) -> Credentials:
    """The credentials of a call; asked for every call, so that a token that is renewed meanwhile is used.

    Raises:
        BackendUnavailable: There are none, or they are not complete.
    """
    if options.token is not None:
        return _given(options, options.token.get_secret_value())
    try:
        token, team, project = _sdk.ambient_credentials()
    except RuntimeError as error:
        raise BackendUnavailable(_what_is_missing(), reason="no_credentials") from error
    return Credentials(token, team, project, _source_of(token))


def _given(options: VercelOptions, token: str) -> Credentials:
    team = options.team or os.environ.get("VERCEL_TEAM_ID")
    project = options.project or os.environ.get("VERCEL_PROJECT_ID")
    if not team or not project:
        problem = "option token needs the options team and project, or VERCEL_TEAM_ID and VERCEL_PROJECT_ID"
        raise BackendUnavailable(problem, reason="no_credentials")
    return Credentials(token, team, project, "option token")


def _what_is_missing() -> str:
    if os.environ.get(_OIDC) or os.environ.get(_OIDC_FILE):
        return (
            f"{_OIDC} names no project and team: set VERCEL_PROJECT_ID and VERCEL_TEAM_ID, or fetch a new one by "
            "`vercel env pull`. It is used before VERCEL_TOKEN; unset it to use that"
        )
    return MISSING


def _source_of(token: str) -> str:
    """Which variable a token came from, and which other one it hides."""
    if token == os.environ.get(_OIDC):
        source = _OIDC
    elif token == os.environ.get(_TOKEN):
        return _TOKEN
    elif os.environ.get(_OIDC_FILE):
        source = _OIDC_FILE
    else:
        source = "the request's x-vercel-oidc-token header"
    return f"{source} (before {_TOKEN}, which is set, too)" if os.environ.get(_TOKEN) else source
