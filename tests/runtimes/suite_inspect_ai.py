"""inspect_ai's own checks for sandbox providers, against ours."""

from __future__ import annotations

import os
import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from hermes_env.adapters.inspect_ai import HermesSandbox, SandboxConfig
import json

@pytest.fixture(scope="module")
def anyio_backend(): return "asyncio"

pytestmark = pytest.mark.anyio

@pytest.fixture
async def sandbox_env(request):
    config = SandboxConfig(**json.loads(os.environ["CFG"]))
    envs = await HermesSandbox.sample_init("t", config, {})
    yield envs["default"]
    await HermesSandbox.sample_cleanup("t", config, envs, False)
