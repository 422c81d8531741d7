"""Options of the Vercel backend."""

from __future__ import annotations

from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from hermes_env import BackendOptions

TAGS = 3
"""Tags of the caller's own: Vercel takes 5, and two are ours."""


class VercelOptions(BackendOptions):
    """Which sandbox is made, how long it lives, and by whose credentials."""

    image: str | None = Field(None, min_length=1)
    """Image of the new sandbox; None is Vercel's default. It needs ``/bin/sh`` and coreutils or busybox."""
    vcpus: int | None = Field(None, gt=0)
    """Processors: at most 4 on Hobby, 8 on Pro, 32 on Enterprise (Vercel's documentation)."""
    memory: int | None = Field(None, gt=0)
    """Memory in MiB; Vercel gives 2048 for each processor."""
    region: str | None = Field(None, min_length=1)
    """Region; None is VERCEL_REGION, else Vercel's choice."""
    name: str | None = Field(None, min_length=1)
    """Name of the new sandbox; None lets Vercel choose."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Tags of the new sandbox, besides our own two."""
    sandbox_env: dict[str, str] = Field(default_factory=dict)
    """Variables of the sandbox itself. Vercel stores them: give secrets to `open_environment(env=)`."""

    network: bool = True
    """Commands reach the network. False is none at all."""
    domain_allow: tuple[str, ...] = ()
    """Domains that can be reached, ``*.example.com`` too. With one list given, what no list names is not reached."""
    network_allow: tuple[str, ...] = ()
    """CIDR blocks that can be reached, besides the domains."""
    network_deny: tuple[str, ...] = ()
    """CIDR blocks that cannot be reached although the other lists say so."""

    execution_time_limit: float = Field(900.0, ge=1)
    """Seconds until Vercel stops the sandbox, whatever it does: at most 45 minutes on Hobby, 24 hours on Pro and
    Enterprise (README of the SDK). Vercel's own default of 5 minutes is short for an agent."""
    extend: bool = True
    """While a command runs, ask Vercel for more time before the limit is reached, as far as the plan allows."""
    open_timeout: float = Field(120.0, gt=0)
    """Seconds for the sandbox to start."""

    token: SecretStr | None = None
    """Access token from https://vercel.com/account/settings/tokens, together with `team` and `project`. None is what
    the environment has: VERCEL_OIDC_TOKEN, and only without that VERCEL_TOKEN."""
    team: str | None = Field(None, min_length=1)
    """Id of the team of the token; None is VERCEL_TEAM_ID."""
    project: str | None = Field(None, min_length=1)
    """Id of the project of the token; None is VERCEL_PROJECT_ID."""
    base_url: str | None = None
    """Address of the service; None is HERMES_ENV_VERCEL_BASE_URL, else Vercel's. The SDK has no variable for it."""

    @field_validator("tags")
    @classmethod
    def _few(cls, tags: dict[str, str]) -> dict[str, str]:
        if len(tags) > TAGS:
            raise ValueError(f"at most {TAGS} tags: Vercel takes 5, and two are the framework's own")
        return tags

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("https://", "http://")):
            raise ValueError("must begin with https:// or http://")
        return url

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.network and (self.network_allow or self.domain_allow or self.network_deny):
            raise ValueError("network=False and lists of what can be reached contradict each other")
        if self.network_deny and not (self.network_allow or self.domain_allow):
            raise ValueError("network_deny takes blocks out of domain_allow or network_allow: give one of them")
        if self.token is None and (self.team or self.project):
            raise ValueError(
                "team and project belong to a token: give token=, or set VERCEL_TEAM_ID, VERCEL_PROJECT_ID"
            )
        return self
