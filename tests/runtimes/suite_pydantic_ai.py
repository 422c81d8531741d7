"""pydantic-ai's own suite for workspace backends, on ours."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from hermes_env.adapters.pydantic_ai import HermesWorkspaceBackend
from tests.runtimes.asked import BACKEND, OPTIONS


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One loop for all: an environment belongs to its loop."""
    return "asyncio"


@pytest.fixture(scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HermesWorkspaceBackend]:
    """One workspace for the tests that leave it as it was."""
    made = described(tmp_path_factory.mktemp("shared"))
    yield made
    await made.destroy()


def described(folder: Path) -> HermesWorkspaceBackend:
    """A workspace that is not opened yet; `local` is told a directory, which is what it then is."""
    return HermesWorkspaceBackend(BACKEND, {**OPTIONS, **({"cwd": str(folder)} if BACKEND == "local" else {})})


class TestWorkspace(WorkspaceBackendSuite):
    """With every fixture that unlocks more of it."""

    @pytest.fixture
    async def made(self) -> AsyncIterator[list[HermesWorkspaceBackend]]:
        """Workspaces that end with the test."""
        found: list[HermesWorkspaceBackend] = []
        yield found
        for workspace in found:
            await workspace.destroy()

    @pytest.fixture
    def backend(self, shared: HermesWorkspaceBackend) -> HermesWorkspaceBackend:
        """The one for all."""
        return shared

    @pytest.fixture
    def fresh_backend(self, made: list[HermesWorkspaceBackend], tmp_path: Path) -> Callable[[], WorkspaceBackend]:
        """Describes one more."""

        def make() -> WorkspaceBackend:
            made.append(described(tmp_path))
            return made[-1]

        return make

    @pytest.fixture
    def attach_backend(self, made: list[HermesWorkspaceBackend]) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        """Attaches by a ref."""

        def attach(ref: WorkspaceRef) -> WorkspaceBackend:
            made.append(HermesWorkspaceBackend(BACKEND, ref=ref))
            return made[-1]

        return attach

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        """Ends what a workspace works in."""

        async def destroy(workspace: WorkspaceBackend) -> None:
            assert isinstance(workspace, HermesWorkspaceBackend) and workspace.ref is not None
            if BACKEND == "local":
                shutil.rmtree(workspace.ref.id)
            else:
                await workspace.destroy()

        return destroy
