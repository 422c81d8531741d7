"""Gets an image from its registry, and tells how far it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError

from ._client import engine_errors, status_of

if TYPE_CHECKING:
    from docker import APIClient

    from ._options import DockerOptions

logger = logging.getLogger("hermes_env")
_EVERY = 1.0
"""Seconds between two lines of the log."""


def ensure(api: APIClient, options: DockerOptions) -> None:
    """Pull the image where the options ask for it: credentials are those of the `docker` command.

    Raises:
        BackendUnavailable: The registry has no such image (``not_installed``), refuses it (``denied``), or cannot be
            reached (``unreachable``).
    """
    if options.pull == "never" or (options.pull == "missing" and _is_there(api, str(options.image))):
        return
    what = f"pull of image {options.image!r}"
    try:
        with engine_errors(what):
            _pull(api, options, what)
    except HermesEnvError as error:
        raise _of_registry(error) from error


def _is_there(api: APIClient, image: str) -> bool:
    try:
        with engine_errors(f"image {image!r}"):
            inspect: Callable[[str], object] = api.inspect_image
            inspect(image)
    except HermesEnvError as error:
        if status_of(error) == 404:
            return False
        raise
    return True


def _pull(api: APIClient, options: DockerOptions, what: str) -> None:
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(str(options.image))
    layers: dict[str, tuple[int, int]] = {}
    told = 0.0
    for event in api.pull(repository, tag=tag or "latest", stream=True, decode=True, platform=options.platform):
        if "error" in event:
            raise BackendUnavailable(f"{what}: {event['error']}", reason="unreachable")
        done, total = _progress(layers, event)
        if options.on_pull is not None:
            options.on_pull(done, total)
        if time.monotonic() - told > _EVERY:
            told = time.monotonic()
            logger.info("%s: %d of %d bytes", what, done, total)
    logger.info("%s: done", what)


def _progress(layers: dict[str, tuple[int, int]], event: dict[str, Any]) -> tuple[int, int]:
    """Bytes that have come, and bytes of all layers whose size is known yet."""
    detail = event.get("progressDetail") or {}
    layer = str(event.get("id", ""))
    if event.get("status") == "Downloading" and "total" in detail:
        layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
    elif event.get("status") in ("Download complete", "Pull complete") and layer in layers:
        layers[layer] = (layers[layer][1], layers[layer][1])
    return sum(done for done, _ in layers.values()), sum(total for _, total in layers.values())


def _of_registry(error: HermesEnvError) -> HermesEnvError:
    """What the engine could not get: 404 is the registry's own answer, or its way to say that one may not look."""
    if isinstance(error, EnvironmentGone) or status_of(error) == 404:
        return BackendUnavailable(f"{error}; is the name right, and `docker login` done?", reason="not_installed")
    return error
