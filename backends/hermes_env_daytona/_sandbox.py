"""Makes, finds, deletes and reaps sandboxes."""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable, EnvironmentGone, owner_is_gone, owner_labels, within

from . import _sdk
from ._failures import status_of, translated

if TYPE_CHECKING:
    from ._options import DaytonaOptions

logger = logging.getLogger("hermes_env")

OWNER_LABEL, ENVIRONMENT_LABEL = "hermes_env.owner", "hermes_env.environment"
ASK = 30.0
"""Seconds for one answer of the control plane."""
_REMOVE = 60.0
_SLEEPING = ("stopped", "archived", "paused")


def create(client: Any, options: DaytonaOptions) -> Any:
    """A started sandbox; nothing is left of one that does not start.

    Raises:
        BackendUnavailable, InvalidArgument: It cannot be made.
    """
    own = owner_labels(secrets.token_hex(16))
    params = _params(_sdk.load(), options, {**options.labels, **own})
    try:
        with translated("creation of a sandbox"):
            # Zero: the SDK's own deadline would use SIGALRM in the main thread, and wipe the caller's.
            return within(
                options.open_timeout,
                "creation of a sandbox",
                lambda: client.create(params, timeout=0),
                late=lambda made: delete(client, made.id),
            )
    except BaseException as error:
        with contextlib.suppress(Exception):
            _delete_labelled(client, own[ENVIRONMENT_LABEL])
        if isinstance(error, EnvironmentGone):
            # 404 for something that the sandbox needs: a snapshot, a volume, a region.
            raise BackendUnavailable(str(error), reason="denied") from error
        raise


def _params(sdk: Any, options: DaytonaOptions, labels: dict[str, str]) -> Any:
    common = {
        "name": options.name,
        "os_user": options.user,
        "env_vars": options.sandbox_env or None,
        "labels": labels,
        "target": options.target,
        "volumes": [_mount(sdk, text) for text in options.volumes] or None,
        "network_block_all": not options.network or None,
        "network_allow_list": ",".join(options.network_allow) or None,
        "domain_allow_list": ",".join(options.domain_allow) or None,
        "auto_stop_interval": options.auto_stop,
        "auto_archive_interval": options.auto_archive,
        "auto_delete_interval": options.auto_delete,
        "ttl_minutes": None if options.ttl is None else math.ceil(options.ttl / 60),
    }
    if options.image is None:
        return sdk.CreateSandboxFromSnapshotParams(snapshot=options.snapshot, **common)
    resources = sdk.Resources(cpu=options.cpu, memory=options.memory, disk=options.disk, gpu=options.gpu)
    return sdk.CreateSandboxFromImageParams(image=options.image, resources=resources, **common)


def _mount(sdk: Any, text: str) -> Any:
    volume, path, subpath = (f"{text}::").split(":")[:3]
    return sdk.VolumeMount(volume_id=volume, mount_path=path, subpath=subpath or None)


def find(client: Any, ident: str) -> Any:
    """A sandbox by id or name, as it is now.

    Raises:
        EnvironmentGone: There is none.
    """
    with translated(f"sandbox {ident}"):
        return within(ASK, f"sandbox {ident}", lambda: client.get(ident, ASK))


def state_of(box: Any) -> str:
    """Its state as text."""
    return str(getattr(box.state, "value", box.state))


def wake(client: Any, ident: str, seconds: float) -> Any:
    """A sandbox that another client made, started when it was stopped.

    Raises:
        EnvironmentGone: There is none, or it cannot be started again.
        BackendUnavailable: It did not start in time.
    """
    box = find(client, ident)
    if state_of(box) in _SLEEPING:
        with translated(f"start of sandbox {ident}"):
            within(seconds, f"start of sandbox {ident}", lambda: box.start(0))
    check_started(box)
    return box


def check_started(box: Any) -> None:
    """Raise unless it takes commands.

    Raises:
        EnvironmentGone: It does not.
    """
    state = state_of(box)
    if state in _SLEEPING:
        raise EnvironmentGone(f"sandbox {box.id} is {state}: attach to it again to start it with its files")
    if state != "started":
        raise EnvironmentGone(f"sandbox {box.id} is {state}")


def expires_at(box: Any) -> datetime | None:
    """When Daytona deletes it whatever it does."""
    moment = getattr(box, "auto_destroy_at", None)
    return datetime.fromisoformat(moment) if moment else None


def delete(client: Any, ident: str) -> None:
    """Delete a sandbox; gone already is fine.

    Raises:
        BackendUnavailable: It could not be deleted; its lifetime ends it.
    """
    try:
        box = find(client, ident)
        with translated(f"deletion of sandbox {ident}"):
            within(_REMOVE, f"deletion of sandbox {ident}", lambda: box.delete(_REMOVE))
    except EnvironmentGone:
        return


def remove(box: Any) -> None:
    """Delete the sandbox of an open environment, without asking for it first."""
    try:
        with translated(f"deletion of sandbox {box.id}"):
            within(_REMOVE, f"deletion of sandbox {box.id}", lambda: box.delete(_REMOVE))
    except EnvironmentGone:
        return


def disown(box: Any) -> None:
    """Take our owner's label off, so that no reaper of this machine touches it."""
    labels = {name: value for name, value in box.labels.items() if name != OWNER_LABEL}
    with translated(f"labels of sandbox {box.id}"):
        within(ASK, f"labels of sandbox {box.id}", lambda: box.set_labels(labels, ASK))


def _list(client: Any, labels: dict[str, str]) -> list[Any]:
    query = _sdk.load().ListSandboxesQuery(labels=labels or None)
    return within(ASK, "list of sandboxes", lambda: list(client.list(query, ASK)))


def _delete_labelled(client: Any, environment: str) -> None:
    """Delete what a failed creation left, also when the answer never came."""
    for box in _list(client, {ENVIRONMENT_LABEL: environment}):
        delete(client, box.id)


def reap(client: Any) -> list[str]:
    """Delete the sandboxes whose client on this machine is dead."""
    removed = []
    with translated("list of sandboxes"):
        found = _list(client, {})
    for box in found:
        if owner_is_gone(box.labels):
            try:
                delete(client, box.id)
            except BackendUnavailable as error:
                logger.debug("sandbox %s not deleted: status %s", box.id, status_of(error))
                continue
            removed.append(str(box.id))
    return removed
