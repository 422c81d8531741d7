"""Commands on a host, each in a session of a shared connection."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import BackendUnavailable, BaseEnvironment, Capabilities, LazyOptions, StdinMode

from ._remote import BOOT_ID, is_launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_env import Channel, KillReport, Launch

    from ._pool import Pool, Session
    from ._target import Target

_START = 5.0
"""Seconds for a command's shell to start before its kill goes on without it."""


class SshEnvironment(BaseEnvironment):
    """Runs commands on any host with an SSH server and a POSIX userland.

    Host keys are checked, nothing of a command but its random id is in any argv, and what login scripts print is not
    output. Commands share one connection; the next one waits when the server allows no more sessions on it.
    ``isolation`` is ``host``, or ``none`` when the host turns out to be this machine.
    """

    stdin_mode: ClassVar[StdinMode] = StdinMode.PIPE
    capabilities = Capabilities(
        separate_stderr=True,
        exact_stdout=True,
        streaming=True,
        half_close=True,
        kill_scope="command",
        isolation="host",
        live_stdin=True,
        reattach=True,
    )
    Options: ClassVar[Any] = LazyOptions("hermes_env_ssh._options:SshOptions")
    install: ClassVar[str] = "pip install 'hermes-env[ssh]'"

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options, **settings)
        self._pool: Pool | None = None
        self._target: Target | None = None
        self._waiting: dict[str, Session] = {}
        self._waiting_lock = threading.Lock()

    @classmethod
    def _unavailable(cls) -> str | None:
        if importlib.util.find_spec("paramiko") is None:
            return "the package paramiko is not installed"
        return None

    def _open(self) -> None:
        problem = self._unavailable()
        if problem is not None:
            raise BackendUnavailable(f"{problem}: {self.install}", reason="not_installed")
        from ._pool import Pool
        from ._resolve import resolve

        self._target = resolve(self.options)
        self._pool = Pool(self._target, self.options.connections)
        boot_id = self._pool.open()
        if boot_id and boot_id == _own_boot_id():
            # Nothing that is known here stands between a command and this machine.
            self.capabilities = replace(self.capabilities, isolation="none")

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _attach(self, ident: str) -> None:  # noqa: ARG002 - the options hold what it says
        """The host is there before its clients and after them: joining it is opening it."""
        self._open()

    def _let_go(self) -> None:
        self._close()

    @classmethod
    def _located(cls, ident: str) -> Mapping[str, Any]:
        from ._place import parse_place

        return {option: value for option, value in parse_place("ref", ident)._asdict().items() if value is not None}

    def _ident(self) -> str:
        from ._place import Place

        assert self._target is not None
        # The host by the name that it was given by, under which the configuration knows keys and ways to it.
        return str(Place(self._target.user, self.options.host, self._target.port))

    def _alive(self) -> bool:
        return self._pool is not None and self._pool.answers()

    def _reserve(self, command_id: str, cancelled: Callable[[], bool]) -> None:
        """Wait for a session before anything is dispatched."""
        assert self._pool is not None
        session = self._pool.acquire(cancelled)
        if session is not None:
            with self._waiting_lock:
                self._waiting[command_id] = session

    def _release(self, command_id: str) -> None:
        with self._waiting_lock:
            session = self._waiting.pop(command_id, None)
        if session is not None:
            session.release()

    def _launch(self, launch: Launch) -> Channel:
        from ._channel import SshChannel

        with self._waiting_lock:
            session = self._waiting.pop(launch.id)
        (nonce,) = launch.args
        assert is_launcher(launch.script), "this backend carries nothing by itself, so that all comes by the launcher"
        return SshChannel(session, nonce)

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:  # noqa: ARG002 - the hook's
        """Have the connection's guard do it, which needs no session of its own."""
        from ._channel import SshChannel

        assert isinstance(channel, SshChannel)
        channel.started.wait(_START)
        return channel.session.link.guard.kill(channel.session.tag, grace)


def _own_boot_id() -> str:
    with contextlib.suppress(OSError), open(BOOT_ID) as file:
        return file.read().strip()
    return ""
