from __future__ import annotations
import json, os
import pytest
from hermes_env import open_environment
from hermes_env.adapters.deepagents import HermesSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests
CFG = json.loads(os.environ["CFG"])
NAME = CFG.pop("backend")
class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with open_environment(NAME, **CFG) as env:
            yield HermesSandbox(env)
