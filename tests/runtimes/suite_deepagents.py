"""LangChain's own tests of a sandbox for deepagents, on ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from hermes_env import open_environment
from hermes_env.adapters.deepagents import HermesSandbox
from tests.runtimes.asked import BACKEND, OPTIONS


class TestSandbox(SandboxIntegrationTests):
    """As its documentation gives it."""

    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[HermesSandbox]:
        """One sandbox for all tests."""
        with open_environment(BACKEND, **OPTIONS) as env:
            yield HermesSandbox(env)
