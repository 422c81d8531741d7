"""Options of the Modal backend."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from hermes_env import BackendOptions

from ._sandbox import split_volume

DAY = 86_400
"""Seconds; the longest that Modal lets a sandbox live."""


class ModalOptions(BackendOptions):
    """Which sandbox is made, how long it lives, and by whose credentials."""

    app: str = Field("hermes-env", min_length=1)
    """App that sandboxes belong to; made when there is none of that name."""
    environment: str | None = Field(None, min_length=1)
    """Modal's environment of app, secrets and volumes; None is MODAL_ENVIRONMENT, else the workspace's default."""
    image: str | None = Field(None, min_length=1)
    """Image of a registry, or the id (``im-…``) of one that Modal has. It needs ``/bin/sh``. None is Debian with
    Python."""
    cpu: float | None = Field(None, gt=0)
    """Processors that are reserved, such as 0.5; None is Modal's default."""
    memory: int | None = Field(None, gt=0)
    """Memory that is reserved, in MiB; None is Modal's default."""
    gpu: str | None = Field(None, min_length=1)
    """GPU, such as ``T4`` or ``H100:2``."""
    region: str | None = Field(None, min_length=1)
    """Region or regions, separated by commas."""
    volumes: tuple[str, ...] = ()
    """``VOLUME:/path`` or ``VOLUME:/path:ro``."""
    secrets: tuple[str, ...] = ()
    """Names of secrets that Modal keeps; their variables are in every process of the sandbox."""
    block_network: bool = False
    """Commands reach no network."""
    workdir: str | None = Field(None, pattern="^/")
    """Working directory of the sandbox; None is the image's."""
    name: str | None = Field(None, min_length=1)
    """Name of the new sandbox, unique in its app among those that run."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Tags of the new sandbox, besides our own."""

    ttl: int = Field(DAY, gt=0, le=DAY)
    """Seconds until Modal ends the sandbox whatever it does; the SDK calls it ``timeout``."""
    idle_timeout: int | None = Field(3600, gt=0)
    """Seconds without a running command until Modal ends the sandbox, `ttl` at most; None leaves it to that."""
    open_timeout: float = Field(300.0, gt=0)
    """Seconds for the sandbox to start; building an image takes minutes."""

    token_id: SecretStr | None = None
    """First half of a token, ``ak-…``; None is MODAL_TOKEN_ID, else ``~/.modal.toml``."""
    token_secret: SecretStr | None = None
    """Second half, ``as-…``; it comes from the same place as the first."""

    @field_validator("volumes")
    @classmethod
    def _well_formed(cls, volumes: tuple[str, ...]) -> tuple[str, ...]:
        for volume in volumes:
            name, path, mode = split_volume(volume)
            if not name or not path.startswith("/") or mode not in ("", "ro"):
                raise ValueError("a volume is VOLUME:/path or VOLUME:/path:ro")
        return volumes
