"""pydantic-ai's own suite for workspace backends, against ours."""

from __future__ import annotations

import json, os, shutil, tempfile

import pytest
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from hermes_env.adapters.pydantic_ai import HermesWorkspaceBackend
CFG = json.loads(os.environ["CFG"])
NAME = CFG.pop("backend")

@pytest.fixture
def anyio_backend(): return "asyncio"

class TestWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    async def made(self):
        found = []
        yield found
        for b in found:
            await b.destroy()

    def _new(self, tmp):
        if NAME == "local":
            return HermesWorkspaceBackend(NAME, {"cwd": tempfile.mkdtemp(dir=tmp)})
        return HermesWorkspaceBackend(NAME, CFG)

    @pytest.fixture
    async def backend(self, made, tmp_path):
        b = self._new(tmp_path)
        made.append(b)
        return b

    @pytest.fixture
    def fresh_backend(self, made, tmp_path):
        def make():
            b = self._new(tmp_path)
            made.append(b)
            return b
        return make

    @pytest.fixture
    def attach_backend(self, made):
        def attach(ref):
            b = HermesWorkspaceBackend(NAME, ref=ref)
            made.append(b)
            return b
        return attach

    @pytest.fixture
    def destroy_environment(self):
        async def destroy(b):
            if NAME == "local":
                shutil.rmtree(b.ref.id)
            else:
                await b.destroy()
        return destroy
