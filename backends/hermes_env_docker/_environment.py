"""Commands as execs of one container."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import (
    BackendUnavailable,
    BaseEnvironment,
    Capabilities,
    EndMarks,
    EnvironmentGone,
    HermesEnvError,
    InvalidArgument,
    LazyOptions,
    Unsupported,
    check_variables,
    kill_until_found,
)

from . import _archive, _client, _container, _pull
from ._channel import Drain, ExecChannel
from ._watcher import Watchers

if TYPE_CHECKING:
    from docker import APIClient

    from hermes_env import Channel, Files, KillReport, Launch

    from ._keeper import Keeper

_START = 1.0
"""Seconds for a process that the engine has told of to become the command, and to be found by its environment."""


class DockerEnvironment(BaseEnvironment):
    """Runs commands in a Docker container, by the engine's API: stdin is the command's own.

    With ``image=`` a container is made, and removed by `close`, or by the engine after `ttl` seconds. With
    ``container=`` an existing one is used and left alone. Each command leads a session of its own; it needs
    ``/bin/sh``, files do not. Options: `hermes_env_docker._options.DockerOptions`.
    """

    capabilities = Capabilities(
        separate_stderr=True,
        exact_stdout=True,
        streaming=True,
        half_close=True,
        kill_scope="command",
        isolation="container",
        live_stdin=True,
        users=True,
        reattach=True,
    )
    Options: ClassVar[Any] = LazyOptions("hermes_env_docker._options:DockerOptions")
    install: ClassVar[str] = _client.INSTALL
    carries_env: ClassVar[bool] = True

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options, **settings)
        self._link: _client.Link | None = None
        self._container = ""
        self._keeper: Keeper | None = None
        self._drain = Drain()
        self._watchers = Watchers(lambda: self)
        self._expires: datetime | None = None

    @classmethod
    def _unavailable(cls) -> str | None:
        return _client.missing()

    # -- life -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        options = self.options
        if options is None or (options.image is None and options.container is None):
            raise InvalidArgument(
                "option 'image'", "give image= for a new container, or container= for an existing one"
            )
        if options.container is not None:
            self._attach(options.container)
            return
        link = self._connect()
        try:
            _pull.ensure(link.api, options)
            self._container, self._keeper = _container.create(link.api, options)
        except BaseException:
            link.close()
            raise
        if options.entrypoint is None:
            self._expires = datetime.now(UTC) + timedelta(seconds=options.ttl)

    def _attach(self, ident: str) -> None:
        link = self._connect()
        try:
            self._container, self._expires = _container.join(link.api, ident)
        except BaseException:
            link.close()
            raise

    def _connect(self) -> _client.Link:
        link = self._link = _client.Link(self.options)
        self.capabilities = replace(self.capabilities, half_close=link.half_close)
        return link

    def _close(self) -> None:
        try:
            if self.options.container is None:
                _container.remove(self._api, self._container)
        finally:
            self._disconnect()

    def _let_go(self) -> None:
        if self._keeper is not None:
            self._keeper.leave()
        self._disconnect()

    def _disconnect(self) -> None:
        self._watchers.leave()
        if self._keeper is not None:
            self._keeper.close()
        if self._link is not None:
            self._link.close()

    @property
    def _api(self) -> APIClient:
        assert self._link is not None
        return self._link.api

    def _ident(self) -> str:
        return self._container

    @classmethod
    def _reap(cls, options: Any) -> list[str]:
        link = _client.Link(options)
        try:
            return _container.reap(link.api)
        finally:
            link.close()

    def _alive(self) -> bool:
        try:
            self._check_container()
        except HermesEnvError:
            return False
        return True

    def _expires_at(self) -> datetime | None:
        return self._expires

    def _make_files(self) -> Files:
        """Files by scripts; by archives in a container of others that has no shell."""
        self._life.require_usable()
        if self._keeper is None and not _archive.has_program(self._api, self._container, "/bin/sh"):
            from ._archive_files import archive_files

            return archive_files(self, self._api, self._container)
        return super()._make_files()

    # -- commands -------------------------------------------------------------------------------------------------

    def _launch(self, launch: Launch) -> Channel:
        check_variables(launch.env)
        marks = EndMarks()
        with_stdin = launch.stdin is not None
        # The keeper sees the end of the client that made its container; others need a watcher, and so does the client
        # whose engine was started anew under the container.
        watch = {} if self._keeper and not self._keeper.ended() else self._watchers.watch(launch.user)
        variables = {**launch.env, **watch}
        exec_id = self._create_exec(marks.argv(launch), launch.user, variables, with_stdin=with_stdin)
        with _client.dispatch_errors(f"start of a command in container {self._container[:12]}"):
            connection = _client.Hijacked(self._api.exec_start(exec_id, socket=True))
        return ExecChannel(
            connection,
            marks=marks,
            user=launch.user,
            with_stdin=with_stdin,
            drain=self._drain,
            inspect=lambda: self._inspect_exec(exec_id),
            intact=self._intact,
            explain=lambda said: self._explain(launch.user, said),
        )

    def start_watcher(self, argv: list[str], user: str | None) -> tuple[str, _client.Hijacked]:
        """Run one of our own watchers in the container."""
        exec_id = self._create_exec(argv, user, {}, with_stdin=True)
        with _client.engine_errors(f"watcher in container {self._container[:12]}"):
            return exec_id, _client.Hijacked(self._api.exec_start(exec_id, socket=True))

    def is_known(self, exec_id: str) -> bool:
        """Whether the engine still knows a command that was started in this container."""
        try:
            with _client.engine_errors("state of a watcher"):
                self._api.exec_inspect(exec_id)
        except EnvironmentGone:
            return False
        return True

    def _intact(self) -> bool:
        """Whether the container runs, and whatever watches over this client's commands still sees the client."""
        lost = self._keeper is not None and self._keeper.ended()
        return not lost and not self._watchers.broken() and self._alive()

    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        """Kill from inside, again while nothing was found: the engine answers a start before the process exists."""
        assert isinstance(channel, ExecChannel)
        channel.killed = True
        return kill_until_found(
            lambda: self._kill_once(command_id, channel, grace), channel.ended, channel.has_process, within=_START
        )

    def _kill_once(self, command_id: str, channel: ExecChannel, grace: float) -> KillReport | None:
        """By the keeper, which needs no new process, where it may signal the command; else by a second exec."""
        keeper = self._keeper if channel.user is None else None
        if keeper is not None and grace == 0 and (report := keeper.kill(command_id)) is not None:
            return report
        try:
            report = super()._kill(command_id, channel, grace)
        except HermesEnvError:
            if keeper is None or (report := keeper.kill(command_id)) is None:
                raise
        return report

    def _create_exec(
        self,
        argv: list[str],
        user: str | None,
        env: dict[str, str],
        *,
        with_stdin: bool = False,
        workdir: str | None = None,
    ) -> str:
        try:
            with _client.engine_errors(f"command in container {self._container[:12]}"):
                created = self._api.exec_create(
                    self._container,
                    argv,
                    stdin=with_stdin,
                    user=user or self.options.user or "",
                    environment=env,
                    workdir=workdir,
                )
        except BackendUnavailable:
            # Paused and stopped containers are one status code; the container itself tells which.
            self._check_container()
            raise
        return str(created["Id"])

    def _check_container(self) -> None:
        with _client.engine_errors(f"container {self._container[:12]}"):
            found = self._api.inspect_container(self._container)
        _container.check_running(found, found["Name"].lstrip("/"))

    def _inspect_exec(self, exec_id: str) -> dict[str, Any]:
        """The state of an exec.

        Raises:
            ConnectionError: The engine does not answer, or does not know it any more.
        """
        try:
            with _client.engine_errors("state of a command"):
                info: dict[str, Any] = self._api.exec_inspect(exec_id)
        except HermesEnvError as error:
            raise ConnectionError(str(error)) from error
        return info

    # -- what keeps a command from starting -----------------------------------------------------------------------

    def _explain(self, user: str | None, said: str) -> Exception:
        """Why the engine could not start a command: found by trying, since its words change between versions."""
        what = f"command in container {self._container[:12]}"
        if self._starts(user, workdir=None):
            problem = f"{what}: could not be started, another one can; out of processes or memory? ({said})"
            return BackendUnavailable(problem, reason="capacity")
        if self._starts(user, workdir="/"):
            problem = f"cwd: the container's working directory cannot be entered ({said})"
            return FileNotFoundError(errno.ENOENT, problem)
        user = user or self.options.user
        if user is not None and self._starts("0", workdir="/"):
            return InvalidArgument("user", f"{user!r} cannot run commands in this container ({said})")
        if _archive.has_program(self._api, self._container, "/bin/sh"):
            problem = f"{what}: nothing can be started; out of processes or memory? ({said})"
            return BackendUnavailable(problem, reason="capacity")
        return Unsupported(f"the container has no /bin/sh that runs ({said})")

    def _starts(self, user: str | None, workdir: str | None) -> bool:
        try:
            exec_id = self._create_exec(["/bin/sh", "-c", ":"], user, {}, workdir=workdir)
            with _client.engine_errors("trial command"):
                self._api.exec_start(exec_id, detach=True)
        except HermesEnvError:
            return False
        return True
