"""Makes, finds, destroys and reaps sandboxes."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, owner_is_gone, owner_labels, within

from ._failures import translated

if TYPE_CHECKING:
    from ._options import VercelOptions
    from ._sdk import Box, Service

T = TypeVar("T")
logger = logging.getLogger("hermes_env")

OWNER_TAG, ENVIRONMENT_TAG = "hermes_env.owner", "hermes_env.environment"
ASK = 30.0
"""Seconds for one answer of the control plane."""
_REMOVE = 60.0
_RUNNING = "running"


def create(service: Service, options: VercelOptions) -> Box:
    """A running sandbox; nothing is left of one that does not start.

    Raises:
        BackendUnavailable, InvalidArgument: It cannot be made.
    """
    own = owner_labels(secrets.token_hex(16))
    try:
        with translated("creation of a sandbox"):
            return within(
                options.open_timeout,
                "creation of a sandbox",
                lambda: service.create(options, {**options.tags, **own}),
                late=_destroy,
            )
    except BaseException as error:
        with contextlib.suppress(Exception):
            _destroy_tagged(service, own[ENVIRONMENT_TAG])
        if isinstance(error, EnvironmentGone):
            # 404 for something that the sandbox needs: an image, a project.
            raise BackendUnavailable(str(error), reason="denied") from error
        raise


def find(service: Service, name: str) -> Box:
    """A sandbox by name, as it is now.

    Raises:
        EnvironmentGone: There is none.
    """
    return _asked(f"sandbox {name}", lambda: service.find(name))


def join(service: Service, name: str) -> Box:
    """A sandbox that another client made.

    Raises:
        EnvironmentGone: There is none, or it does not run: it is not resumed.
    """
    box = find(service, name)
    _check_running(box)
    return box


def check_running(box: Box) -> None:
    """Ask whether the sandbox takes commands.

    Raises:
        EnvironmentGone: It does not.
    """
    _asked(f"sandbox {box.name}", box.refresh)
    _check_running(box)


def _check_running(box: Box) -> None:
    if box.status != _RUNNING:
        raise EnvironmentGone(f"sandbox {box.name} is {box.status}, and is not resumed")


def _asked(what: str, work: Callable[[], T]) -> T:
    with translated(what):
        return within(ASK, what, work)


def remove(box: Box) -> None:
    """Stop and destroy the sandbox of an open environment; gone already is fine.

    Raises:
        BackendUnavailable: It could not be destroyed; its time limit stops it.
    """
    # Stopping first is what the SDK does: what runs has ended when this returns.
    with contextlib.suppress(HermesEnvError), translated(f"stop of sandbox {box.name}"):
        within(_REMOVE, f"stop of sandbox {box.name}", box.stop)
    _destroy(box)


def _destroy(box: Box) -> None:
    with contextlib.suppress(EnvironmentGone), translated(f"destruction of sandbox {box.name}"):
        within(_REMOVE, f"destruction of sandbox {box.name}", box.destroy)


def disown(box: Box) -> None:
    """Take our owner's tag off, so that no reaper of this machine touches it."""
    tags = {name: value for name, value in box.tags.items() if name != OWNER_TAG}
    _asked(f"tags of sandbox {box.name}", lambda: box.retag(tags))


def _destroy_tagged(service: Service, environment: str) -> None:
    """Destroy what a failed creation left, also when the answer never came."""
    for box in _asked("list of sandboxes", lambda: list(service.all((ENVIRONMENT_TAG, environment)))):
        _destroy(box)


def reap(service: Service) -> list[str]:
    """Destroy the sandboxes whose client on this machine is dead."""
    removed = []
    for box in _asked("list of sandboxes", lambda: list(service.all())):
        if owner_is_gone(box.tags):
            try:
                _destroy(box)
            except BackendUnavailable as error:
                logger.debug("sandbox %s not destroyed: %s", box.name, error.reason)
                continue
            removed.append(box.name)
    return removed
