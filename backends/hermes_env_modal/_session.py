"""One client of the SDK, and its event loop: all work of the SDK and of our pumps runs there, on one thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import importlib.util
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hermes_env import BackendUnavailable

from . import _credentials
from ._failures import translated

if TYPE_CHECKING:
    from ._options import ModalOptions

T = TypeVar("T")
INSTALL = "pip install 'hermes-env[modal]'"
_LATE = 10.0
"""Seconds for a call of the SDK to return after it was cancelled."""
_CLOSE = 10.0


def missing() -> str | None:
    """Why the SDK cannot be used; it is not imported to find out."""
    return None if importlib.util.find_spec("modal") else "the package `modal` is not installed"


def load() -> Any:
    """The SDK's module; it is large, and reads its configuration when it is imported.

    Raises:
        BackendUnavailable: It is not installed, or its configuration cannot be used.
    """
    if problem := missing():
        raise BackendUnavailable(f"{problem}: {INSTALL}", reason="not_installed")
    try:
        return importlib.import_module("modal")
    except ImportError as error:
        raise BackendUnavailable(f"the package `modal` cannot be imported: {error}", reason="not_installed") from error


class Session:
    """A connection of one environment to Modal's control plane.

    The SDK's own client of the process is not used: it keeps the first address and token for ever.
    """

    def __init__(self, options: ModalOptions) -> None:
        """Connect.

        Raises:
            BackendUnavailable: No SDK, no credentials, or the service cannot be reached or denies them.
        """
        # First: the SDK would complain about a configuration file that is not needed when it cannot be read.
        token = _credentials.find(options)
        self.sdk = load()
        self.source = token.source
        with translated(f"connection to Modal with the token of {token.source}"):
            future = self.sdk.Client.from_credentials(token.ident, token.secret, _future=True)
            self.client = _result(future, options.open_timeout, "connection to Modal")
            try:
                self.loop = self._greet(options.open_timeout)
            except BaseException:
                self.client.close(_future=True)
                raise

    def _greet(self, seconds: float) -> asyncio.AbstractEventLoop:
        """Have the token checked; the loop on which the SDK does all of its work."""
        while True:
            future, caller = self.client.hello(_future=True), _Caller()
            future.add_done_callback(caller)
            _result(future, seconds, "greeting to Modal")
            if (loop := caller.loop()) is not None:
                return loop

    def run(self, work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
        """Do work on the SDK's loop, and wait `seconds` at most; an interrupt of the waiting cancels it.

        Raises:
            HermesEnvError: See `translated`; also when it did not return in time.
        """
        with translated(what):
            return self.call(work, seconds, what)

    def call(self, work: Coroutine[Any, Any, T], seconds: float, what: str) -> T:
        """As `run`, with the SDK's own errors.

        Raises:
            TimeoutError: It did not return in time.
        """
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self.loop)
        return _result(future, seconds + _LATE, what)

    def close(self) -> None:
        """Give up every connection."""
        self.run(self.client.close.aio(), _CLOSE, "end of a connection to Modal")


class _Caller:
    """Notes where a future of the SDK calls back: on its loop, or here when it was done before it was asked to."""

    def __init__(self) -> None:
        self._here = threading.get_ident()
        self._told = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, _: object) -> None:
        if threading.get_ident() != self._here:
            self._loop = asyncio.get_running_loop()
        self._told.set()

    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop; None when it cannot be told."""
        self._told.wait()
        return self._loop


def _result(future: concurrent.futures.Future[T], seconds: float, what: str) -> T:
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if type(error) is not TimeoutError:
            raise
        raise TimeoutError(f"no answer in time to: {what}") from error
    finally:
        # Without effect on what is done; an interrupt of this thread must not leave the call running.
        future.cancel()
