"""What Hermes agent asks about a terminal backend before it opens one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agent.terminal_env_provider import TerminalEnvironmentProvider

from hermes_env import BackendInfo, list_backends, load_backend, open_environment, options_from_environment
from hermes_env.adapters.hermes_agent._environment import TerminalEnvironment


def provider(backend: str) -> Provider:
    """The provider ``hermes_env_NAME`` of one backend."""
    return Provider(backend)


class Provider(TerminalEnvironmentProvider):
    """One backend. Approval prompts stay on for all of them: mounts may reach files of this machine."""

    skip_container_guards = False
    cache_path_base = None

    def __init__(self, backend: str) -> None:
        self._backend = backend
        capabilities = self._info().capabilities
        isolation = "none" if capabilities is None else capabilities.isolation
        self.is_remote = isolation != "none"
        self.is_container = isolation in ("container", "vm")

    @property
    def name(self) -> str:
        """The value of `terminal.backend`."""
        return f"hermes_env_{self._backend}"

    @property
    def display_name(self) -> str:
        """What pickers show."""
        return f"hermes_env: {self._backend}"

    @property
    def strip_env_keys(self) -> frozenset[str]:
        """Options may be secrets: no command is to see them."""
        return frozenset(key for key in os.environ if key.startswith("HERMES_ENV_"))

    def is_available(self) -> bool:
        """Whether what the backend needs is installed; asks no network."""
        return self._info().available

    def probe(self) -> tuple[str, str]:
        """State for the picker."""
        info = self._info()
        return ("ready", "") if info.available else ("needs_setup", f"{info.reason}: {info.install}")

    def create_environment(self, *, cwd: str, timeout: int, **context: Any) -> TerminalEnvironment:
        """Open an environment; see `create`."""
        return create(self._backend, cwd=cwd, timeout=timeout, **context)

    def _info(self) -> BackendInfo:
        return next(info for info in list_backends() if info.name == self._backend)


def create(
    backend: str,
    *,
    cwd: str,
    timeout: int,
    image: str | None = None,
    backend_config: Mapping[str, Any] | None = None,
    **_: Any,
) -> TerminalEnvironment:
    """Open an environment as Hermes agent asks for one.

    Args:
        backend: Name of the backend.
        cwd: Where commands start; the environment's own directory where there is none of that name.
        timeout: Seconds for each command without a limit of its own.
        image: For a backend with an option of this name, unless it is given otherwise.
        backend_config: Options of the backend; they win over the variables ``HERMES_ENV_<BACKEND>_<OPTION>``.
        **_: What is not known here is not used.
    """
    kind = load_backend(backend)
    options = {**options_from_environment(kind, backend), **(backend_config or {})}
    if image and kind.Options is not None and "image" in kind.Options.model_fields and "container" not in options:
        options.setdefault("image", image)
    env = open_environment(backend, **options)
    try:
        return TerminalEnvironment(env, cwd=cwd, timeout=timeout)
    except BaseException:
        env.close()
        raise
