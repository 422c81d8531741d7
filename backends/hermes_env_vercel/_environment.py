"""Commands and files of one sandbox, through the SDK's `run_process` and file transfers."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import (
    Capabilities,
    EnvironmentGone,
    HermesEnvError,
    Keeper,
    KillReport,
    LazyOptions,
    StagedEnvironment,
    within,
)

from . import _failures, _sandbox, _sdk, _transfer
from ._credentials import find as find_credentials

if TYPE_CHECKING:
    from hermes_env import Launch, Probe

logger = logging.getLogger("hermes_env")

_SCRIPT, _SERVICE = 4.0, 2.0
"""Seconds after which a kill script is not tried again, and for the service's own kill: somebody waits for both."""
_MARGIN = 2 / 3
"""Part of the time limit that is left when more is asked for: clocks differ by less."""


class VercelEnvironment(StagedEnvironment):
    """Runs commands in a Vercel Sandbox, which is made by `open` and destroyed by `close`.

    The SDK carries output as text, decoded piece by piece: so script, variables, stdin and output are private files.
    It talks to one session only, which is never resumed and where nothing is sent twice.
    Options: `hermes_env_vercel._options.VercelOptions`.
    """

    capabilities = Capabilities(
        separate_stderr=True, exact_stdout=True, kill_scope="command", isolation="vm", reattach=True
    )
    Options: ClassVar[Any] = LazyOptions("hermes_env_vercel._options:VercelOptions")
    install: ClassVar[str] = _sdk.INSTALL
    sdk_packages: ClassVar[tuple[str, ...]] = (_sdk.DISTRIBUTION, "vercel")
    max_reply_bytes: ClassVar[int] = 4 << 20
    batch_bytes: ClassVar[int] = _transfer.PART
    fetches: ClassVar[bool] = True

    def __init__(self, options: Any = None, **settings: Any) -> None:
        super().__init__(options or type(self).Options(), **settings)
        self._service: Any = None
        self._box: Any = None
        self._keeper = Keeper(self._extend, self._until_extension)
        self._extensible = self.options.extend
        self._made = False

    @classmethod
    def _unavailable(cls) -> str | None:
        return _sdk.problem()

    # -- life -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        with self._connecting():
            self._box = _sandbox.create(self._service, self.options)
        self._made = True

    def _attach(self, ident: str) -> None:
        with self._connecting():
            self._box = _sandbox.join(self._service, ident)

    @contextlib.contextmanager
    def _connecting(self) -> Iterator[None]:
        """Connect, and close the connections when what follows fails."""
        self._service = _connect(self.options)
        try:
            yield
        except BaseException:
            self._service.close()
            raise

    def _close(self) -> None:
        self._keeper.stop()
        try:
            _sandbox.remove(self._box)
        finally:
            self._service.close()

    def _let_go(self) -> None:
        self._keeper.stop()
        try:
            if self._made:
                _sandbox.disown(self._box)
        finally:
            self._service.close()

    def _ident(self) -> str:
        return str(self._box.name)

    def _credentials(self) -> str:
        return find_credentials(self.options).source

    @classmethod
    def _reap(cls, options: Any) -> list[str]:
        service = _connect(options or cls.Options())
        try:
            return _sandbox.reap(service)
        finally:
            service.close()

    def _alive(self) -> bool:
        try:
            _sandbox.check_running(self._box)
        except HermesEnvError:
            return False
        return True

    def _expires_at(self) -> datetime | None:
        moment: datetime | None = self._box.expires_at
        return moment

    def _probes(self, patience: float) -> Sequence[Probe]:
        from ._questions import Questions

        return Questions(self._box).all(patience)

    def _until_extension(self) -> float:
        """Seconds until more time is asked for."""
        end = self._expires_at()
        if end is None or not self._extensible:
            return math.inf
        left = (end - datetime.now(UTC)).total_seconds()
        margin: float = self.options.execution_time_limit * _MARGIN
        return max(0.0, left - margin)

    def _extend(self) -> None:
        """Ask for the time that has passed, once more."""
        try:
            self._box.extend(max(1.0, self.options.execution_time_limit * (1 - _MARGIN)))
        except Exception as error:
            failure = _sdk.failure_of(error)
            if failure is not None and failure.status is not None and failure.status < 500 and failure.status != 429:
                # The plan allows no more: that does not change.
                self._extensible = False
            raise

    # -- commands and staged files --------------------------------------------------------------------------------

    def _run(self, script: str, launch: Launch) -> str:
        started: list[bool] = []
        try:
            with self._keeper.busy():
                output: str = self._box.run(script, launch.id, lambda: started.append(True))
        except Exception as error:
            if not started:
                self._check_gone(error)
            raise
        return output

    def _kill(self, command_id: str, channel: object, grace: float) -> KillReport | None:
        patience = time.monotonic() + grace + _SCRIPT
        with contextlib.suppress(HermesEnvError, ConnectionError):
            report = super()._kill(command_id, channel, grace)
            if report is None or report.confirmed:
                return report
        # The sandbox did not run the kill script: the service ends what it lists under the command's id.
        logger.debug("kill of %s by the service", command_id)
        with self._checked():
            within(_SERVICE, "kill by the service", lambda: self._box.kill(command_id))
        if time.monotonic() > patience:
            return KillReport(0, confirmed=False)
        return super()._kill(command_id, channel, 0.0)

    def _stage(self, path: str, chunks: Iterator[bytes]) -> None:
        with self._checked():
            _transfer.upload(self._box, path, chunks)

    def _stage_sized(self, path: str, chunks: Iterator[bytes], size: int) -> None:
        with self._checked():
            _transfer.upload(self._box, path, chunks, size)

    def _stage_many(self, files: Sequence[tuple[str, bytes]]) -> None:
        with self._checked():
            self._box.write(files)

    def _fetch(self, path: str) -> Iterator[bytes]:
        chunks: Iterator[bytes] = self._box.read(path)
        return chunks

    def _unstage(self, path: str) -> None:
        with self._checked():
            _transfer.remove(self._box, path)

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._check_gone(error)
            raise

    def _check_gone(self, error: BaseException) -> None:
        """Find out whether an answered error means that the session has ended.

        410 alone does not say so: the service also answers it when it lost its own connection to the sandbox.

        Raises:
            EnvironmentGone: It has.
            BackendUnavailable: The credentials are no longer accepted, or too much was asked for.
        """
        failure = _sdk.failure_of(error)
        if failure is None or failure.status is None:
            return
        if failure.status in (*_failures.DENIED, _failures.TOO_MUCH):
            raise _failures.translate(error, f"sandbox {self._box.name}") from error
        try:
            _sandbox.check_running(self._box)
        except EnvironmentGone as gone:
            raise gone from error
        except HermesEnvError:
            return


def _connect(options: Any) -> _sdk.Service:
    return _sdk.Service(options, lambda: find_credentials(options))
