"""Commands and files of one sandbox, through the SDK's `process.exec` and file transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import Capabilities, EnvironmentGone, HermesEnvError, Keeper, LazyOptions, StagedEnvironment

from . import _failures, _sandbox, _sdk, _transfer

if TYPE_CHECKING:
    from hermes_env import Launch, Probe

_BACKSTOP = 7 * 86_400
"""Seconds after which Daytona ends a command that nobody ends; deadlines are the framework's."""
_DELETE = 30
_ANSWER = 30.0


class DaytonaEnvironment(StagedEnvironment):
    """Runs commands in a Daytona sandbox, which is made by `open` and deleted by `close`.

    The SDK gives the text of a command to a shell's stdin, merges its output into one text and sends requests again
    that had no answer: so script, variables and stdin are private files, and a fence lets each command run once.
    Options: `hermes_env_daytona._options.DaytonaOptions`.
    """

    capabilities = Capabilities(
        separate_stderr=True, exact_stdout=True, kill_scope="command", isolation="container", reattach=True
    )
    Options: ClassVar[Any] = LazyOptions("hermes_env_daytona._options:DaytonaOptions")
    install: ClassVar[str] = _sdk.INSTALL
    sdk_packages: ClassVar[tuple[str, ...]] = ("daytona", "daytona-sdk")
    max_reply_bytes: ClassVar[int] = 8 << 20
    batch_bytes: ClassVar[int] = _transfer.BATCH
    fetches: ClassVar[bool] = True

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options or type(self).Options(), **settings)
        self._client: Any = None
        self._box: Any = None
        self._keeper: Keeper | None = None
        self._made = False

    @classmethod
    def _unavailable(cls) -> str | None:
        return None if _sdk.package() else "the package `daytona` is not installed"

    # -- life -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._client = _sdk.connect(self.options)
        self._use(_sandbox.create(self._client, self.options))
        self._made = True

    def _attach(self, ident: str) -> None:
        self._client = _sdk.connect(self.options)
        self._use(_sandbox.wake(self._client, ident, self.options.open_timeout))

    def _use(self, box: Any) -> None:
        self._box = box
        pause = 60.0 * (box.auto_stop_interval or self.options.auto_stop) / 3
        self._keeper = Keeper(lambda: box.refresh_activity(_ANSWER), lambda: pause)

    def _close(self) -> None:
        self._stop_keeper()
        _sandbox.remove(self._box)

    def _let_go(self) -> None:
        self._stop_keeper()
        if self._made:
            _sandbox.disown(self._box)

    def _stop_keeper(self) -> None:
        assert self._keeper is not None
        self._keeper.stop()

    def _ident(self) -> str:
        return str(self._box.id)

    def _credentials(self) -> str:
        return _sdk.source(self.options)

    @classmethod
    def _reap(cls, options: Any) -> list[str]:
        return _sandbox.reap(_sdk.connect(options or cls.Options()))

    def _alive(self) -> bool:
        try:
            _sandbox.check_started(_sandbox.find(self._client, self._box.id))
        except HermesEnvError:
            return False
        return True

    def _expires_at(self) -> datetime | None:
        return _sandbox.expires_at(self._box)

    def _probes(self, patience: float) -> Sequence[Probe]:
        from ._questions import Questions

        return Questions(self._box, self.options.auto_stop).all(patience)

    # -- commands and staged files --------------------------------------------------------------------------------

    def _run(self, script: str, launch: Launch) -> str | None:  # noqa: ARG002 - the text is all that the SDK takes
        assert self._keeper is not None
        try:
            with self._keeper.busy():
                answer = self._box.process.exec(script, timeout=_BACKSTOP)
        except Exception as error:
            if _failures.ran_out_of_time(error):
                return None
            self._check_gone(error)
            raise
        return str(answer.result)

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        try:
            _transfer.upload(self._box.fs, path, chunks)
        except Exception as error:
            self._check_gone(error)
            raise

    def _stage_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        try:
            _transfer.upload_many(_sdk.load(), self._box.fs, files)
        except Exception as error:
            self._check_gone(error)
            raise

    def _fetch(self, path: str) -> Iterator[bytes]:
        return _transfer.download(self._box.fs, path)

    def _unstage(self, path: str) -> None:
        try:
            self._box.fs.delete_file(path, request_timeout=_DELETE)
        except Exception as error:
            if _failures.status_of(error) != 404:
                raise

    def _check_gone(self, error: BaseException) -> None:
        """Find out whether an answered error means that the sandbox is gone or stopped.

        Raises:
            EnvironmentGone: It is.
            BackendUnavailable: The credentials are no longer accepted.
        """
        status = _failures.status_of(error)
        if status in (401, 403):
            raise _failures.translate(error, f"sandbox {self._box.id}") from error
        if status is None:
            return
        try:
            _sandbox.check_started(_sandbox.find(self._client, self._box.id))
        except EnvironmentGone as gone:
            raise gone from error
        except HermesEnvError:
            return
