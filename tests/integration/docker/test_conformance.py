"""The laws of the contract on Docker: two images, TLS and ssh, and containers of other users and file systems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hermes_env_conformance._suite import LAWS
from tests import images
from tests.engine import IMAGE, Engine, EngineUnavailable
from tests.slow import ALL, slow, told

from .own_engine import OwnEngine

SLOW = slow("takes minutes")
VARIANT = [argument for name, law in LAWS.items() if law.variant for argument in ("--law", name)]
"""The laws that a variant of a backend runs."""
ESSENCE = [
    argument
    for name in (
        "test_the_end_of_output_is_exact",
        "test_variables_arrive_exactly",
        "test_every_content_is_written",
        "test_a_status_is_true",
        "test_a_link_stays_a_link",
    )
    for argument in ("--law", name)
]
"""A few of them, for the run that everyone waits for."""
VARIANTS: dict[str, dict[str, Any]] = {
    "another user": {"user": "agent"},
    "read-only root": {"read_only": True, "tmpfs": ["/tmp:mode=1777"]},
    "read-only root, another user, hardened": {
        "read_only": True,
        "tmpfs": ["/tmp:mode=1777"],
        "user": "agent",
        "hardened": True,
    },
    "memory file system": {"tmpfs": ["/work:mode=1777"], "workdir": "/work"},
}


def _as_option(value: object) -> str:
    """Text is given as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def conforms(options: dict[str, Any], *arguments: str, workspace: str = "/tmp") -> None:
    """Run the suite as a user runs it, and expect that every law holds."""
    given = [part for name, value in options.items() for part in ("--option", f"{name}={_as_option(value)}")]
    argv = [sys.executable, "-m", "hermes_env_conformance", "docker", *given, *arguments, "--workspace", workspace]
    done = subprocess.run(argv, capture_output=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout.decode()[-6000:]
    last = done.stdout.decode().strip().splitlines()[-1]
    passed = int(last.split()[0])
    assert passed >= 5 and last == f"{passed} passed, 0 failed, 0 gaps"


BRIEFLY = {
    ("busybox", "read-only root, another user, hardened"),
    ("busybox", "memory file system"),
    ("debian", "another user"),
}
"""What everyone waits for."""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("image", ["busybox", "debian"])
def test_variants(engine: Engine, variant: str, image: str) -> None:
    """Laws hold for other users, on a read-only root and in a memory file system: a few, or all of a variant."""
    if not ALL and (image, variant) not in BRIEFLY:
        pytest.skip(told("takes minutes"))
    options = VARIANTS[variant]
    chosen = debian(engine) if image == "debian" else IMAGE
    conforms(
        {"image": chosen, "host": engine.host, "ttl": 3600, **options},
        "--profile",
        "quick",
        *(VARIANT if ALL else ESSENCE),
        workspace=options.get("workdir", "/tmp"),
    )


@SLOW
def test_busybox_image(engine: Engine) -> None:
    """Every law holds on an image of busybox alone."""
    conforms({"image": IMAGE, "host": engine.host, "ttl": 3600}, "--profile", "default")


@SLOW
def test_debian_image(engine: Engine) -> None:
    """Every law holds on Debian."""
    conforms({"image": debian(engine), "host": engine.host, "ttl": 3600}, "--profile", "quick")


@SLOW
def test_tls(own: OwnEngine) -> None:
    """Every law holds where stdin is framed by length, over TLS."""
    conforms(
        {"image": IMAGE, "host": own.address, "tls": str(own.certificates / "client"), "ttl": 3600},
        "--profile",
        "quick",
    )


def debian(engine: Engine) -> str:
    """Name of the Debian image; skips where it cannot be built, or would have to be in a run that is to be short."""
    required = ALL or "docker" in os.environ.get("HERMES_ENV_REQUIRE", "")
    if not required and not images.is_cached(engine):
        pytest.skip("the Debian image is built with HERMES_ENV_SLOW=1")
    try:
        images.ensure_debian(engine)
    except EngineUnavailable as error:
        pytest.skip(str(error))
    return images.DEBIAN
