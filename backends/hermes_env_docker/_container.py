"""Makes, inspects and removes the container of an environment."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes_env import (
    BackendUnavailable,
    EnvironmentGone,
    InvalidArgument,
    owner_is_gone,
    owner_labels,
)

from ._client import Hijacked, engine_errors, status_of
from ._keeper import KEEPER, Keeper

if TYPE_CHECKING:
    from docker import APIClient

    from ._options import DockerOptions

ENVIRONMENT_LABEL, OWNER_LABEL = "hermes_env.environment", "hermes_env.owner"
_EXPIRES = "hermes_env.expires"
_ALL_STREAMS = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_HARDENED_PIDS = 512
_GONE = 30
"""Seconds for the engine to finish a removal."""


def create(api: APIClient, options: DockerOptions) -> tuple[str, Keeper | None]:
    """Make and start a container; nothing is left of one that does not start.

    Returns:
        Its id, and the line to its keeper, if it is ours that runs.

    Raises:
        BackendUnavailable, InvalidArgument: It cannot be made.
    """
    own = {**owner_labels(secrets.token_hex(16)), _EXPIRES: str(int(time.time() + options.ttl))}
    labels = {**options.labels, **own}
    what = f"container of image {options.image!r}"
    keeper = None
    try:
        with engine_errors(what):
            created = api.create_container(**_settings(api, options, labels))
            if options.entrypoint is None:
                keeper = Keeper(Hijacked(api.attach_socket(created["Id"], params=_ALL_STREAMS)))
            api.start(created["Id"])
        if keeper is not None:
            keeper.await_ready(what)
        return str(created["Id"]), keeper
    except BaseException as error:
        if keeper is not None:
            keeper.close()
        with contextlib.suppress(Exception):
            _remove_labelled(api, labels[ENVIRONMENT_LABEL])
        if isinstance(error, EnvironmentGone):
            # 404 for something that the container needs: a network, a volume driver.
            raise BackendUnavailable(str(error), reason="not_installed") from error
        if status_of(error) == 409:
            raise InvalidArgument("option 'name'", str(error)) from error
        raise


def _settings(api: APIClient, options: DockerOptions, labels: dict[str, str]) -> dict[str, Any]:
    keeper = ("/bin/sh", "-c", KEEPER, "hermes-env-keeper", str(max(1, round(options.ttl))))
    return {
        "image": options.image,
        "entrypoint": list(options.entrypoint or keeper),
        # Open until the one connection that is attached to it ends.
        "stdin_open": options.entrypoint is None,
        "name": options.name,
        "user": options.user,
        "working_dir": options.workdir,
        "labels": labels,
        "platform": options.platform,
        # An image's health check would run commands beside ours.
        "healthcheck": {"test": ["NONE"]},
        "host_config": api.create_host_config(**_host_settings(options)),
    }


def _host_settings(options: DockerOptions) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "init": True,
        "auto_remove": True,
        "mounts": [_mount(text) for text in options.mounts],
        "mem_limit": options.memory,
        "nano_cpus": None if options.cpus is None else int(options.cpus * 1e9),
        "pids_limit": options.pids_limit,
        "read_only": options.read_only,
        "tmpfs": dict(text.partition(":")[::2] for text in options.tmpfs),
        "runtime": options.runtime,
        "network_mode": None if options.network else "none",
    }
    if options.hardened:
        settings |= {
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "network_mode": "none",
            "pids_limit": options.pids_limit or _HARDENED_PIDS,
        }
    return settings


def _mount(text: str) -> Any:
    """A bind of a host path, which must exist (`-v` would make it, owned by root), or a named volume."""
    from docker.types import Mount

    source, target, mode = (text + ":").split(":")[:3]
    if source.startswith("/"):
        return Mount(target, source, type="bind", read_only=mode == "ro")
    return Mount(target, source, type="volume", read_only=mode == "ro")


def join(api: APIClient, name: str) -> tuple[str, datetime | None]:
    """The id of a running container (a name may come to mean another one), and when its time is over.

    Raises:
        EnvironmentGone: There is none, or it does not run.
        BackendUnavailable: It is paused.
    """
    with engine_errors(f"container {name!r}"):
        found = api.inspect_container(name)
    check_running(found, name)
    expires = (found["Config"]["Labels"] or {}).get(_EXPIRES, "")
    return str(found["Id"]), datetime.fromtimestamp(int(expires), UTC) if expires.isdigit() else None


def check_running(found: dict[str, Any], name: str) -> None:
    """Raise unless a container can take a command."""
    state = found["State"]
    if state["Paused"]:
        raise BackendUnavailable(f"container {name!r} is paused: unpause it", reason="unreachable")
    if not state["Running"]:
        raise EnvironmentGone(f"container {name!r} is not running ({state['Status']})")


def remove(api: APIClient, container: str) -> None:
    """Remove a container and its anonymous volumes, and wait until it is gone; gone already is fine."""
    try:
        with engine_errors(f"removal of container {container[:12]}"):
            api.remove_container(container, force=True, v=True)
    except EnvironmentGone:
        return
    except BackendUnavailable as error:
        # 409: the engine removes it already, by its time to live.
        if status_of(error) != 409:
            raise
        with contextlib.suppress(EnvironmentGone), engine_errors("wait for removal"):
            api.wait(container, timeout=_GONE, condition="removed")


def _remove_labelled(api: APIClient, environment: str) -> None:
    """Remove what a failed creation left, also when the engine's answer never came."""
    for found in api.containers(all=True, filters={"label": f"{ENVIRONMENT_LABEL}={environment}"}):
        remove(api, found["Id"])


def reap(api: APIClient) -> list[str]:
    """Remove the containers whose client on this machine is dead, unless it detached from them first."""
    removed = []
    with engine_errors("list of containers"):
        found = api.containers(all=True, filters={"label": OWNER_LABEL})
    for container in found:
        if owner_is_gone(container["Labels"]) and not _detached(api, container["Id"]):
            remove(api, container["Id"])
            removed.append(str(container["Id"]))
    return removed


def _detached(api: APIClient, container: str) -> bool:
    """Whether the keeper says so; also when it cannot be asked, since its time is bounded anyway."""
    try:
        with engine_errors(f"processes of container {container[:12]}"):
            processes = api.top(container, "-eo pid,args")["Processes"]
    except EnvironmentGone:
        return True
    except BackendUnavailable as error:
        # 409: it does not run, so nobody can have been left in it.
        return status_of(error) != 409
    return any(re.search(r"hermes-env-detached \d+$", process[-1]) for process in processes or ())
