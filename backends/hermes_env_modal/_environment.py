"""Commands as execs of one sandbox, streamed in both directions."""

from __future__ import annotations

import functools
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import (
    BaseEnvironment,
    Capabilities,
    EndMarks,
    HermesEnvError,
    LazyOptions,
    PayloadTooLarge,
    StdinMode,
    check_variables,
    kill_until_found,
)

from . import _failures, _sandbox, _session
from ._channel import ExecChannel
from ._handles import Handles
from ._pumps import Pumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_env import Channel, KillReport, Launch, Probe

_MAX_ARGV = 65_536
"""Characters of all arguments (SDK 1.6.4, ARG_MAX_BYTES); the service counts bytes."""
_MAX_SCRIPT = 64_000
"""Bytes that the framework may put into arguments: the wrapper takes the rest."""
_START = 60.0
"""Seconds for the service to start a command; the SDK itself tries a lost worker for 10 s."""
_APPEARS = 3.0
"""Seconds for the service to make the process of a command that it has accepted."""
_SPARE = 60
"""Seconds after a command's own deadline at which the service ends it, should this client be gone by then."""
_LONGEST = 86_400
"""Seconds that a sandbox lives at most."""
_NO_STDIN = "exec </dev/null;"
"""Saves the message that would close stdin."""


class ModalEnvironment(BaseEnvironment):
    """Runs commands in a Modal sandbox, which is made by `open` and terminated by `close`.

    The SDK streams stdin by offset and both outputs exactly; it has no call that ends one command, so a second one does
    that from inside. Options: `hermes_env_modal._options.ModalOptions`.
    """

    stdin_mode: ClassVar[StdinMode] = StdinMode.PAYLOAD
    capabilities = Capabilities(
        separate_stderr=True,
        exact_stdout=True,
        streaming=True,
        half_close=True,
        kill_scope="command",
        isolation="container",
        max_script_bytes=_MAX_SCRIPT,
        live_stdin=True,
        reattach=True,
    )
    Options: ClassVar[Any] = LazyOptions("hermes_env_modal._options:ModalOptions")
    install: ClassVar[str] = _session.INSTALL
    sdk_packages: ClassVar[tuple[str, ...]] = ("modal",)
    carries_env: ClassVar[bool] = True

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options or type(self).Options(), **settings)
        self._session: _session.Session | None = None
        self._box: Any = None
        self._handles: Handles | None = None
        self._expires: datetime | None = None
        self._made = False

    @classmethod
    def _unavailable(cls) -> str | None:
        return _session.missing()

    # -- life -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        session = self._connect()
        try:
            self._use(_sandbox.create(session, self.options))
        except BaseException:
            session.close()
            raise
        self._expires = _sandbox.lifetime(self.options)
        self._made = True

    def _attach(self, ident: str) -> None:
        session = self._connect()
        try:
            self._use(_sandbox.join(session, ident))
            self._expires = _sandbox.expires_at(session, self._box)
        except BaseException:
            session.close()
            raise

    def _use(self, box: Any) -> None:
        self._box = box
        self._handles = Handles(box, functools.partial(_sandbox.another, self._link, self._ident()))

    def _connect(self) -> _session.Session:
        self._session = _session.Session(self.options)
        return self._session

    @property
    def _link(self) -> _session.Session:
        assert self._session is not None
        return self._session

    def _close(self) -> None:
        try:
            self._drop_handles()
            _sandbox.remove(self._link, self._box)
        finally:
            self._link.close()

    def _drop_handles(self) -> None:
        assert self._handles is not None
        self._link.run(self._handles.close(), _sandbox.ASK, f"connections to sandbox {self._ident()}")

    def _let_go(self) -> None:
        try:
            self._drop_handles()
            if self._made:
                _sandbox.disown(self._link, self._box)
            _sandbox.leave(self._link, self._box)
        finally:
            self._link.close()

    def _ident(self) -> str:
        return str(self._box.object_id)

    @classmethod
    def _reap(cls, options: Any) -> list[str]:
        options = options or cls.Options()
        session = _session.Session(options)
        try:
            return _sandbox.reap(session, options)
        finally:
            session.close()

    def _alive(self) -> bool:
        try:
            _sandbox.check_running(self._link, self._box)
        except HermesEnvError:
            return False
        return True

    def _expires_at(self) -> datetime | None:
        return self._expires

    def _probes(self, patience: float) -> Sequence[Probe]:
        from ._questions import Questions

        return Questions(self._link, self._box).all(patience)

    # -- commands -------------------------------------------------------------------------------------------------

    def _launch(self, launch: Launch) -> Channel:
        check_variables(launch.env)
        marks, with_stdin = EndMarks(), launch.stdin is not None
        argv = marks.argv(launch, setup="" if with_stdin else _NO_STDIN, one_group=True)
        _check_argv(argv)
        start = self._start(argv, launch, with_stdin=with_stdin)
        what = f"start of a command in sandbox {self._ident()}"
        try:
            pumps = self._link.call(start, _START, what)
        except Exception as error:
            if not _failures.is_sdk_error(error):
                raise
            if _failures.refused(error):
                raise _failures.translate(error, what, "cmd") from error
            raise ConnectionError(f"{what}: {_failures.name_of(error)}") from error
        return ExecChannel(pumps, marks, with_stdin=with_stdin, intact=self._alive)

    async def _start(self, argv: list[str], launch: Launch, *, with_stdin: bool) -> Pumps:
        """Start a command, and at once all that reads, writes and waits: a wait that begins late loses exit codes."""
        assert self._handles is not None
        handle = await self._handles.take()
        try:
            limit = _backstop(launch.timeout)
            process = await handle.box.result().exec.aio(*argv, env=dict(launch.env), timeout=limit, text=False)
        except BaseException:
            self._handles.give(handle)
            raise
        return Pumps(process, functools.partial(self._handles.give, handle), with_stdin=with_stdin)

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        assert isinstance(channel, ExecChannel)
        channel.killed = True
        once = super()._kill
        return kill_until_found(lambda: once(command_id, channel, grace), channel.ended, within=_APPEARS)


def _check_argv(argv: list[str]) -> None:
    """Refuse what the SDK, which counts characters, would let through to a service that cannot take it.

    Raises:
        PayloadTooLarge: Nothing was started.
    """
    size = sum(len(part.encode()) for part in argv)
    if size > _MAX_ARGV:
        raise PayloadTooLarge(f"cmd: {size} bytes of arguments; Modal takes {_MAX_ARGV}")


def _backstop(timeout: float | None) -> int | None:
    if timeout is None or timeout + _SPARE > _LONGEST:
        return None
    return math.ceil(timeout) + _SPARE
