"""Makes, finds, ends and reaps sandboxes."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable, EnvironmentGone, owner_is_gone, owner_labels

from ._failures import is_sdk_error

if TYPE_CHECKING:
    from ._options import ModalOptions
    from ._session import Session

logger = logging.getLogger("hermes_env")

OWNER_TAG, ENVIRONMENT_TAG = "hermes_env.owner", "hermes_env.environment"
MACHINE_TAG = "hermes_env.machine"
"""The part of the owner that names machine, boot and namespace: tags are found by their whole value only."""
EXPIRES_TAG = "hermes_env.expires"
ASK = 60.0
"""Seconds for one answer of the control plane; the SDK itself tries a lost connection for 56 s."""
_PYTHON = "3.12"
"""Of Modal's own Debian image; the SDK would take the caller's version, which Modal may not have."""
_READY = "exit 79"
_READY_CODE = 79


def create(session: Session, options: ModalOptions) -> Any:
    """A sandbox that takes commands; nothing is left of one that does not come to that.

    Raises:
        BackendUnavailable, InvalidArgument: It cannot be made.
    """
    tags = _tags(options)
    what = f"creation of a sandbox with the token of {session.source}"
    try:
        box = session.run(_create(session, options, tags), options.open_timeout, what)
        _await_start(session, box, options.open_timeout)
    except BaseException as error:
        with contextlib.suppress(Exception):
            session.run(_terminate_tagged(session, options, tags), ASK, "removal of what a failed creation left")
        if isinstance(error, EnvironmentGone):
            # Not found: something that the sandbox needs, such as a secret or a volume, or it ended at once.
            raise BackendUnavailable(str(error), reason="denied") from error
        raise
    return box


def _tags(options: ModalOptions) -> dict[str, str]:
    own = owner_labels(secrets.token_hex(16))
    expires = str(int(datetime.now(UTC).timestamp()) + options.ttl)
    return {**options.tags, **own, MACHINE_TAG: _machine(own), EXPIRES_TAG: expires}


def _machine(labels: Mapping[str, str]) -> str:
    return ".".join(labels[OWNER_TAG].split(".")[:3])


async def _create(session: Session, options: ModalOptions, tags: dict[str, str]) -> Any:
    sdk = session.sdk
    return await sdk.Sandbox.create.aio(
        # An entry point of the image would end, or serve something, and the sandbox with it.
        "/bin/sh",
        "-c",
        "while :; do sleep 86400; done",
        app=await _app(session, options, create=True),
        image=_image(sdk, options.image),
        tags=tags,
        name=options.name,
        cpu=options.cpu,
        memory=options.memory,
        gpu=options.gpu,
        region=options.region.split(",") if options.region else None,
        volumes=dict(_volume(session, options, text) for text in options.volumes),
        secrets=[sdk.Secret.from_name(name, **_place(session, options)) for name in options.secrets],
        block_network=options.block_network,
        workdir=options.workdir,
        timeout=options.ttl,
        idle_timeout=None if options.idle_timeout is None else min(options.idle_timeout, options.ttl),
        client=session.client,
    )


async def _app(session: Session, options: ModalOptions, *, create: bool) -> Any:
    lookup = session.sdk.App.lookup.aio
    return await lookup(options.app, create_if_missing=create, **_place(session, options))


def _place(session: Session, options: ModalOptions) -> dict[str, Any]:
    return {"client": session.client, "environment_name": options.environment}


def _image(sdk: Any, name: str | None) -> Any:
    """A new object each time: the SDK keeps in it what one workspace called the image."""
    if name is None:
        return sdk.Image.debian_slim(_PYTHON)
    return sdk.Image.from_id(name) if name.startswith("im-") else sdk.Image.from_registry(name)


def _volume(session: Session, options: ModalOptions, text: str) -> tuple[str, Any]:
    name, path, mode = split_volume(text)
    volume = session.sdk.Volume.from_name(name, **_place(session, options))
    return path, volume.read_only() if mode == "ro" else volume


def _await_start(session: Session, box: Any, seconds: float) -> None:
    """Run a command: the first one waits until the sandbox has a place and an image.

    Raises:
        BackendUnavailable: It does not run.
    """
    code = session.run(_try(box), seconds, f"start of sandbox {box.object_id}")
    if code != _READY_CODE:
        raise BackendUnavailable(f"the image has no /bin/sh that runs (exit code {code})", reason="not_installed")


def split_volume(text: str) -> tuple[str, str, str]:
    """Name, path and mode of a volume."""
    name, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    return name, path, mode


async def _try(box: Any) -> int:
    process = await box.exec.aio("/bin/sh", "-c", _READY, text=False)
    code: int = await process.wait.aio()
    return code


def join(session: Session, ident: str) -> Any:
    """A sandbox that another client made.

    Raises:
        EnvironmentGone: There is none, or it has ended.
    """
    box = session.run(_find(session, ident), ASK, f"sandbox {ident}")
    if box is None:
        raise EnvironmentGone(f"sandbox {ident} has ended")
    return box


async def _find(session: Session, ident: str) -> Any:
    box = await another(session, ident)
    return box if await box.poll.aio() is None else None


async def another(session: Session, ident: str) -> Any:
    """One more object for a sandbox: each has a connection of its own."""
    return await session.sdk.Sandbox.from_id.aio(ident, client=session.client)


def check_running(session: Session, box: Any) -> None:
    """Raise unless a sandbox runs.

    Raises:
        EnvironmentGone: It does not.
        BackendUnavailable: It cannot be asked.
    """
    if session.run(box.poll.aio(), ASK, f"sandbox {box.object_id}") is not None:
        raise EnvironmentGone(f"sandbox {box.object_id} has ended")


def expires_at(session: Session, box: Any) -> datetime | None:
    """When Modal ends a sandbox of ours whatever it does."""
    tags: dict[str, str] = session.run(box.get_tags.aio(), ASK, f"tags of sandbox {box.object_id}")
    text = tags.get(EXPIRES_TAG, "")
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else None


def lifetime(options: ModalOptions) -> datetime:
    """When a sandbox that was just made ends."""
    return datetime.now(UTC) + timedelta(seconds=options.ttl)


def remove(session: Session, box: Any) -> None:
    """End a sandbox; ended already is fine.

    Raises:
        BackendUnavailable: It could not be ended; its timeouts end it.
    """
    try:
        session.run(_terminate(box), ASK, f"end of sandbox {box.object_id}")
    except EnvironmentGone:
        return


async def _terminate(box: Any) -> None:
    await box.terminate.aio()
    await box.detach.aio()


async def _terminate_tagged(session: Session, options: ModalOptions, tags: dict[str, str]) -> None:
    """End what a failed creation left, also when the answer never came."""
    for box in await _tagged(session, options, {ENVIRONMENT_TAG: tags[ENVIRONMENT_TAG]}):
        await _terminate(box)


async def _tagged(session: Session, options: ModalOptions, tags: dict[str, str]) -> list[Any]:
    app = await _app(session, options, create=False)
    found = session.sdk.Sandbox.list.aio(app_id=app.app_id, tags=tags, client=session.client)
    return [box async for box in found]


def disown(session: Session, box: Any) -> None:
    """Take our owner's tags off, so that no reaper of this machine touches it."""
    session.run(_disown(box), ASK, f"tags of sandbox {box.object_id}")


async def _disown(box: Any) -> None:
    tags = await box.get_tags.aio()
    await box.set_tags.aio({name: value for name, value in tags.items() if name not in (OWNER_TAG, MACHINE_TAG)})


def leave(session: Session, box: Any) -> None:
    """Close this client's connection to a sandbox."""
    session.run(box.detach.aio(), ASK, f"connection to sandbox {box.object_id}")


def reap(session: Session, options: ModalOptions) -> list[str]:
    """End the sandboxes of the app whose client on this machine is dead."""
    try:
        return session.run(_reap(session, options), 10 * ASK, f"list of sandboxes of app {options.app!r}")
    except EnvironmentGone:
        # No such app: nothing was ever made in it.
        return []


async def _reap(session: Session, options: ModalOptions) -> list[str]:
    removed = []
    for box in await _tagged(session, options, {MACHINE_TAG: _machine(owner_labels(""))}):
        try:
            if owner_is_gone(await box.get_tags.aio()):
                await _terminate(box)
                removed.append(str(box.object_id))
        except Exception as error:
            if not is_sdk_error(error):
                raise
            logger.debug("sandbox %s not ended: %s", box.object_id, type(error).__name__)
    return removed
