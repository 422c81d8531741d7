"""Terminal backends for Hermes agent: this folder is a plugin that its loader takes.

``~/.hermes/plugins/hermes_env`` is this folder or a link to it. The plugin registers a backend ``hermes_env_NAME`` for
each backend that is installed; their options are read from variables ``HERMES_ENV_NAME_OPTION``.
"""

from __future__ import annotations

from typing import Any

from hermes_env import list_backends
from hermes_env.adapters.hermes_agent._environment import TerminalEnvironment

__all__ = ["TerminalEnvironment", "register"]


def register(ctx: Any) -> None:
    """Register one provider for each backend; the plugin loader of Hermes agent calls this.

    Raises:
        RuntimeError: This Hermes agent is older than its terminal environment providers (August 2026).
    """
    if not hasattr(ctx, "register_terminal_environment_provider"):
        raise RuntimeError("this Hermes agent takes no terminal backends from plugins: it must be newer than 0.19")
    from hermes_env.adapters.hermes_agent._provider import provider

    for info in list_backends():
        ctx.register_terminal_environment_provider(provider(info.name))
