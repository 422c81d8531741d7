"""Commands as processes of this machine, with a minimal environment of their own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import CommandEnvironment, InvalidArgument, LazyOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_env import Channel, Files, KillReport, Launch


_INHERITED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"})


def _inherited(everything: bool) -> dict[str, str]:
    if everything:
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
    return {"PATH": os.defpath, **kept}


def _absolute(cwd: str) -> str:
    """A relative directory starts at the calling process's, as it is now."""
    if os.path.isabs(cwd):
        return cwd
    try:
        return os.path.join(os.getcwd(), cwd)
    except FileNotFoundError:
        raise InvalidArgument("cwd", "is relative, and the directory of this process was removed") from None


class LocalEnvironment(CommandEnvironment):
    """Runs commands as the calling user on this machine. It isolates nothing: see the option ``inherit_env``.

    Commands get a minimal environment (PATH, HOME, locale and the like), so that secrets in the caller's variables
    stay there, and never the caller's standard input.
    """

    capabilities = replace(CommandEnvironment.capabilities, isolation="none")
    Options: ClassVar[Any] = LazyOptions("hermes_env_local._options:LocalOptions")
    carries_env: ClassVar[bool] = True
    carries_cwd: ClassVar[bool] = True
    carries_bytes: ClassVar[bool] = True

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options, **settings)
        self._base_env = _inherited(options is not None and options.inherit_env)
        if self.cwd is not None:
            self.cwd = _absolute(self.cwd)

    def _make_files(self) -> Files:
        from hermes_env.files import NativeFiles

        return NativeFiles(self)

    def _argv(self, launch: Launch) -> list[str]:
        return launch.argv()

    def _environ(self, launch: Launch) -> Mapping[str, str]:
        return {**self._base_env, **launch.env}

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:  # noqa: ARG002
        """Kill by signals of our own; no second command is needed."""
        return self._kill_process(channel, grace)
