"""inspect_ai's own checks of a sandbox provider, on ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentSpec
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - the way that its documentation gives

from hermes_env.adapters.inspect_ai import SandboxConfig
from tests.runtimes.asked import BACKEND, OPTIONS

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One loop for all: an environment belongs to its loop."""
    return "asyncio"


@pytest.fixture(scope="session")
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    """One sandbox for all checks, opened as a sample opens it."""
    spec = SandboxEnvironmentSpec(f"hermes-{BACKEND}", SandboxConfig(options=OPTIONS))
    provider = registry_find_sandboxenv(spec.type)
    made = await provider.sample_init("self check", spec.config, {})
    yield made["default"]
    await provider.sample_cleanup("self check", spec.config, made, interrupted=False)
