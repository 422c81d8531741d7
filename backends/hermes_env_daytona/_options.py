"""Options of the Daytona backend."""

from __future__ import annotations

from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from hermes_env import BackendOptions

DAY = 86_400.0
"""Default lifetime of a sandbox in seconds."""


class DaytonaOptions(BackendOptions):
    """Which sandbox is made, how long it lives, and by whose credentials."""

    snapshot: str | None = Field(None, min_length=1)
    """Snapshot of the new sandbox; None is the organization's default."""
    image: str | None = Field(None, min_length=1)
    """Image to build the sandbox from, instead of a snapshot. It needs ``/bin/sh`` and coreutils or busybox."""
    cpu: int | None = Field(None, gt=0)
    """Processors; like the other resources only together with `image`, a snapshot has its own."""
    memory: int | None = Field(None, gt=0)
    """Memory in GiB."""
    disk: int | None = Field(None, gt=0)
    """Disk in GiB; organizations are held to 10 by default."""
    gpu: int | None = Field(None, gt=0)
    """GPUs."""
    target: str | None = Field(None, min_length=1)
    """Region; None is DAYTONA_TARGET, else the organization's default."""
    user: str | None = Field(None, min_length=1)
    """User of the sandbox; None is the snapshot's."""
    name: str | None = Field(None, min_length=1)
    """Name of the new sandbox; None lets Daytona choose."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the new sandbox, besides our own."""
    sandbox_env: dict[str, str] = Field(default_factory=dict)
    """Variables of the sandbox itself. Daytona stores and shows them: give secrets to `open_environment(env=)`."""
    volumes: tuple[str, ...] = ()
    """``VOLUME:/path`` or ``VOLUME:/path:subpath``."""

    network: bool = True
    """Commands reach the network. False is none at all."""
    network_allow: tuple[str, ...] = ()
    """CIDR blocks that can be reached; empty is all."""
    domain_allow: tuple[str, ...] = ()
    """Domains that can be reached; empty is all."""

    auto_stop: int = Field(15, gt=0)
    """Idle minutes until Daytona stops the sandbox. Never 0: a sandbox that nobody stops is billed for ever."""
    auto_archive: int | None = Field(None, ge=0)
    """Stopped minutes until its disk is archived; None is Daytona's default of 7 days."""
    auto_delete: int = Field(24 * 60, ge=0)
    """Stopped minutes until it is deleted; 0 deletes it when it stops."""
    ttl: float | None = Field(DAY, gt=0)
    """Seconds until Daytona deletes the sandbox whatever it does; None is no limit."""
    open_timeout: float = Field(300.0, gt=0)
    """Seconds for the sandbox to start; building an image takes minutes."""

    api_key: SecretStr | None = None
    """Key from https://app.daytona.io/dashboard/keys; None is DAYTONA_API_KEY. It needs the scopes ``write:sandboxes``
    and ``delete:sandboxes``."""
    jwt_token: SecretStr | None = None
    """Token instead of a key, together with `organization`; None is DAYTONA_JWT_TOKEN."""
    organization: str | None = None
    """Organization of the token; None is DAYTONA_ORGANIZATION_ID."""
    api_url: str | None = None
    """Address of the control plane; None is DAYTONA_API_URL, else Daytona's cloud."""
    dotenv: bool = False
    """Let the SDK look for credentials in ``.env.local`` and ``.env`` of the working directory. That directory may be
    somebody else's repository, so it is not asked by default."""

    @field_validator("volumes")
    @classmethod
    def _well_formed(cls, volumes: tuple[str, ...]) -> tuple[str, ...]:
        for volume in volumes:
            name, _, path = volume.partition(":")
            if not name or not path.startswith("/"):
                raise ValueError("a volume is VOLUME:/path or VOLUME:/path:subpath")
        return volumes

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.snapshot is not None and self.image is not None:
            raise ValueError("give snapshot= or image=, not both")
        resources = [name for name in ("cpu", "memory", "disk", "gpu") if getattr(self, name) is not None]
        if resources and self.image is None:
            raise ValueError(f"{', '.join(resources)}: only with image=; a snapshot has its own resources")
        if not self.network and (self.network_allow or self.domain_allow):
            raise ValueError("network=False and an allow list contradict each other")
        return self
