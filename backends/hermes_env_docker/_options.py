"""Options of the Docker backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from hermes_env import BackendOptions

DAY = 86_400.0
"""Default lifetime of a container in seconds."""


class DockerOptions(BackendOptions):
    """Where commands run: a new container of an `image`, or an existing `container`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=False)

    image: str | None = Field(None, min_length=1)
    """Image to run; see `pull`. It needs ``/bin/sh`` and ``sleep``; with an `entrypoint` of its own, files can be read
    and written without them."""
    pull: Literal["never", "missing", "always"] = "never"
    """Whether the engine gets the image from its registry, with the credentials of `docker login`."""
    on_pull: Callable[[int, int], None] | None = None
    """Called with the bytes that have come and the bytes of all layers known yet, as a pull goes on."""
    container: str | None = Field(None, min_length=1)
    """Name or id of a running container. It is only used: closing the environment never stops or removes it."""
    host: str | None = None
    """Address of the engine: ``unix:///path``, ``tcp://host:port``, ``https://host:port`` or ``ssh://user@host``, also
    with the path of the socket there. None: DOCKER_HOST, else the docker context in use, else the machine's own."""
    tls: str | None = Field(None, min_length=1)
    """Folder with ``ca.pem``, ``cert.pem`` and ``key.pem`` for a tcp:// address. None: DOCKER_CERT_PATH, or
    ``~/.docker`` where DOCKER_TLS_VERIFY is set. The engine's certificate is always checked."""
    ssh_config: str | None = Field(None, min_length=1)
    """Configuration file of `ssh` for an ssh:// address; None is its own."""
    user: str | None = Field(None, min_length=1)
    """User of every command, by name, ``uid`` or ``uid:gid``; None is the image's."""

    name: str | None = Field(None, min_length=1)
    """Name of the new container; None lets the engine choose."""
    workdir: str | None = Field(None, pattern="^/")
    """Working directory of the container; made when it is missing. None is the image's."""
    mounts: tuple[str, ...] = ()
    """``/host/path:/path``, ``volume:/path``, each also with ``:ro``. A host path must exist."""
    network: bool = True
    """Commands reach the network, as they do with `docker run`: agents install packages. False is none at all."""
    memory: int | str | None = None
    """Limit in bytes, or as text such as ``512m``."""
    cpus: float | None = Field(None, gt=0)
    """Limit in processors, such as 1.5."""
    pids_limit: int | None = Field(None, gt=0)
    """Limit of processes and threads."""
    read_only: bool = False
    """The root file system cannot be written; see `tmpfs`."""
    tmpfs: tuple[str, ...] = ()
    """Memory file systems, as ``/path`` or ``/path:size=64m,mode=1777``."""
    runtime: str | None = None
    """OCI runtime, such as ``runsc``."""
    platform: str | None = None
    """Platform of the image, such as ``linux/arm64``."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the new container, besides our own."""
    entrypoint: tuple[str, ...] | None = Field(None, min_length=1)
    """Runs instead of the keeper that holds the container open. When it ends, the environment is gone, and it is not
    held to `ttl`."""
    hardened: bool = False
    """No capabilities, no new privileges, no network, at most 512 processes. What it costs: no package installs, no
    `chown`, no files of other users for root, no low ports."""
    ttl: float = Field(DAY, gt=0, le=30 * DAY)
    """Seconds until the engine removes a container that nobody closed."""

    @field_validator("mounts")
    @classmethod
    def _well_formed(cls, mounts: tuple[str, ...]) -> tuple[str, ...]:
        for mount in mounts:
            source, _, rest = mount.partition(":")
            target, _, mode = rest.partition(":")
            if not source or not target.startswith("/") or mode not in ("", "ro", "rw"):
                raise ValueError("a mount is SOURCE:/TARGET or SOURCE:/TARGET:ro")
        return mounts

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.container is not None:
            kept = {"container", "host", "tls", "ssh_config", "user"}
            extra = sorted(
                name
                for name in self.model_fields_set - kept
                if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True)
            )
            if extra:
                raise ValueError(f"container= exists already; these shape a new one: {', '.join(extra)}")
        return self
