"""Workspaces for pydantic-ai: every backend, by its structural protocols.

``Agent(..., capabilities=[HermesWorkspace("docker", {"image": "…"})])`` gives each run a workspace and lets go of it at
the end of the run; a `HermesWorkspaceBackend` is one that its maker ends by `destroy` or leaves to others by `release`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_env.adapters import runtime

with runtime("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler

from ._backend import PROVIDER, HermesWorkspaceBackend

if TYPE_CHECKING:
    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.workspaces import WorkspaceRef

__all__ = ["HermesWorkspace", "HermesWorkspaceBackend"]


@dataclass
class HermesWorkspace(AbstractCapability[Any]):
    """Gives runs a workspace in an environment: a new one, or the one that the message history names."""

    backend: str
    """Name of the backend, as for `hermes_env.open_environment`."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What a new environment is opened with: ``cwd``, ``env``, ``timeout`` and the options of the backend."""
    _: KW_ONLY
    attach_options: Mapping[str, Any] | None = field(default=None, repr=False)
    """The same for one that exists; None takes `options`, of which what only a new one can use has no effect."""
    id: str | None = "hermes_workspace"

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> HermesWorkspaceBackend | None:
        """For a new environment, or for a ref that names one of this backend or the directory in `cwd`; else None."""
        ours = ref is None or ref.id.startswith(f"{self.backend}://") or ref.id == self.options.get("cwd")
        if not ours or (ref is not None and ref.provider != PROVIDER):
            return None
        joins = self.attach_options is not None and ref is not None and "://" in ref.id
        return _OfRun(self.backend, self.attach_options if joins else self.options, ref)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Let go of the run's environment at its end; the next run of the conversation attaches to it again."""
        try:
            return await handler()
        finally:
            if isinstance(backend := ctx.workspace.backend, _OfRun):
                await backend.release()


class _OfRun(HermesWorkspaceBackend):
    """Made for a run, which lets go of it."""
