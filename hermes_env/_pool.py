"""Environments kept warm: opened ahead, handed out one at a time, replaced when they are used or dead."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _registry, _validate
from ._errors import EnvironmentGone, InvalidArgument, PoolExhausted

if TYPE_CHECKING:
    from ._base import BaseEnvironment

logger = logging.getLogger("hermes_env")

Waiter = Future["BaseEnvironment"]
_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds between attempts to open while opening fails and nobody waits."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """What a pool holds at a moment, and what it has done so far."""

    idle: int
    """Open, and ready to be taken."""
    taken: int
    """In somebody's hands."""
    opening: int
    closing: int
    waiting: int
    """Callers who wait for one."""
    opened: int
    """Opened so far."""
    replaced: int
    """Found dead, or near their end, and given up, so far."""


class EnvironmentPool:
    """Keeps environments of one backend warm and hands them out. Thread-safe.

    ::

        with EnvironmentPool("docker", warm=4, limit=16, image="debian") as pool:
            with pool.take(timeout=30) as env:
                env.exec("make test")

    By default nobody gets an environment that somebody else has used: what comes back is closed, and another one is
    opened in its place.
    """

    def __init__(
        self,
        backend: str | Callable[[], BaseEnvironment],
        *,
        warm: int = 1,
        limit: int = 8,
        reuse: bool = False,
        at_once: int = 4,
        check_every: float = 30.0,
        min_lifetime: float = 60.0,
        **settings: Any,
    ) -> None:
        """Begin to open environments; returns at once.

        Args:
            backend: As in `open_environment`; or a function that opens an environment.
            warm: How many are kept open and idle.
            limit: How many exist at once: idle, taken, opening and closing together.
            reuse: Hand out again what comes back alive, after its commands were killed; files and background processes
                of the last user are still there.
            at_once: How many are opened at the same time.
            check_every: Seconds between looks at those that are idle; dead ones are replaced.
            min_lifetime: Seconds that one must have left, where its provider ends it by itself.
            **settings: ``cwd``, ``env``, ``timeout`` and the options of the backend.

        Raises:
            InvalidArgument: A number that makes no sense, or settings beside a function.
        """
        if limit < 1 or at_once < 1:
            raise InvalidArgument("limit" if limit < 1 else "at_once", "must be at least 1")
        if not 0 <= warm <= limit:
            raise InvalidArgument("warm", f"must be 0 to {limit}, the limit, not {warm!r}")
        if callable(backend) and settings:
            raise InvalidArgument("settings", "are for a backend's name: the function given knows its own")
        self._open = backend if callable(backend) else lambda: _registry.open_environment(backend, **settings)
        self.warm, self.limit, self.reuse = warm, limit, reuse
        self._at_once, self._check_every, self._min_lifetime = at_once, check_every, min_lifetime
        self._change = threading.Condition()  # Guards what follows; never held while anything is opened or closed.
        self._idle: deque[BaseEnvironment] = deque()
        self._looked: set[BaseEnvironment] = set()  # Idle, and asked at this moment whether they live.
        self._taken: set[BaseEnvironment] = set()
        self._waiters: deque[Waiter] = deque()
        self._opening = self._closing = self._opened = self._replaced = self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._errors: list[Exception] = []
        with self._change:
            self._balance()
        self._keeper = threading.Thread(target=self._keep, name="hermes-env-pool", daemon=True)
        self._keeper.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def stats(self) -> PoolStats:
        """What the pool holds now."""
        with self._change:
            return PoolStats(
                len(self._idle) + len(self._looked),
                len(self._taken),
                self._opening,
                self._closing,
                len(self._waiters),
                self._opened,
                self._replaced,
            )

    # -- taking ---------------------------------------------------------------------------------------------------

    @contextmanager
    def take(self, timeout: float | None = None) -> Iterator[BaseEnvironment]:
        """Hold an open environment for as long as the block runs. Who waits longest is served first.

        Args:
            timeout: Seconds to wait for one at most; None waits as long as it takes.

        Raises:
            PoolExhausted: None came free in time.
            EnvironmentGone: The pool is closed.
            BackendUnavailable, HermesEnvError: One could not be opened, while this caller was waiting for it.
        """
        limit = _validate.check_timeout("timeout", timeout)
        waiter: Waiter = Future()
        try:
            self._ask(waiter)
            wait([waiter], limit)
            env = self._served(waiter, timeout)
        except BaseException:
            self._withdraw(waiter)
            raise
        try:
            yield env
        finally:
            self._give_back(env)

    def _served(self, waiter: Waiter, timeout: float | None) -> BaseEnvironment:
        """What a waiter whose time is over has got.

        Raises:
            PoolExhausted: Nothing.
        """
        if not self._leave(waiter):
            return waiter.result()
        now = self.stats
        raise PoolExhausted(
            f"no environment came free within {timeout} s: {now.taken} taken, {now.opening} opening, "
            f"{now.closing} closing, limit {self.limit}, {now.waiting} more waiting"
        )

    def _ask(self, waiter: Waiter) -> None:
        """Get in line; the future gets an environment, which `_give_back` takes, or an error.

        Raises:
            EnvironmentGone: The pool is closed.
        """
        with self._change:
            if self._closed:
                raise EnvironmentGone("this pool was closed: make a new one")
            self._waiters.append(waiter)
            self._not_before = 0.0
            self._balance()
        self._serve()

    def _leave(self, waiter: Waiter) -> bool:
        """Get out of line; False when one has been handed over already."""
        with self._change:
            with suppress(ValueError):
                self._waiters.remove(waiter)
            return waiter.cancel()

    def _withdraw(self, waiter: Waiter) -> None:
        """Get out of line; what has been handed over already goes back unused."""
        if not self._leave(waiter) and waiter.exception() is None:
            self._give_back(waiter.result(), used=False)

    def _give_back(self, env: BaseEnvironment, *, used: bool = True) -> None:
        """Take back what was handed out: it is kept when it is alive and may be used again, else closed."""
        again = (self.reuse or not used) and not self._closed and self._rested(env)
        with self._change:
            self._put(env, self._taken, keep=again)
        self._serve()

    def _put(self, env: BaseEnvironment, held: set[BaseEnvironment], *, keep: bool) -> None:
        """Keep or close what was held; the lock is held. What a closing pool has taken away is not ours any more."""
        if env not in held:
            return
        held.discard(env)
        if keep:
            self._idle.append(env)
        else:
            self._discard(env)
        self._balance()

    def _rested(self, env: BaseEnvironment) -> bool:
        """Whether it can be handed out again; commands that still run there are killed."""
        try:
            env._end_sessions()  # noqa: SLF001 - one framework
            env._life.kill_all()  # noqa: SLF001
            return self._fit(env)
        except Exception as error:  # noqa: BLE001 - whatever it is, this one is not handed out again
            logger.debug("an environment is not used again: %s", type(error).__name__)
            return False

    def _fit(self, env: BaseEnvironment) -> bool:
        """Alive, and for long enough; may ask its provider."""
        if not env.alive():
            return False
        ends = env.expires_at
        return ends is None or (ends - datetime.now(UTC)).total_seconds() >= self._min_lifetime

    # -- handing out ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Hand idle environments to those who wait, longest first; dead ones are replaced instead."""
        while True:
            with self._change:
                if not (self._waiters and self._idle):
                    return
                env = self._look_at()
            fit = self._is_fit(env)
            with self._change:
                if fit and env in self._looked and self._hand_over(env):
                    self._looked.discard(env)
                    self._taken.add(env)
                else:
                    self._looked_at(env, fit=fit)

    def _look_at(self) -> BaseEnvironment:
        env = self._idle.popleft()
        self._looked.add(env)
        return env

    def _looked_at(self, env: BaseEnvironment, *, fit: bool) -> None:
        self._replaced += not fit
        self._put(env, self._looked, keep=fit)

    def _hand_over(self, env: BaseEnvironment) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(env)
                return True
        return False

    def _is_fit(self, env: BaseEnvironment) -> bool:
        try:
            return self._fit(env)
        except Exception as error:  # noqa: BLE001 - one that cannot even be asked is dead
            logger.debug("an idle environment does not answer: %s", type(error).__name__)
            return False

    # -- opening and closing --------------------------------------------------------------------------------------

    def _balance(self) -> None:
        """Begin to open as many as are wanted and allowed; the lock is held."""
        if self._closed or time.monotonic() < self._not_before:
            return
        ready = len(self._idle) + len(self._looked) + self._opening
        exist = ready + len(self._taken) + self._closing
        wanted = self.warm + len(self._waiters) - ready
        for _ in range(min(wanted, self.limit - exist, self._at_once - self._opening)):
            self._opening += 1
            threading.Thread(target=self._open_one, name="hermes-env-pool-open", daemon=True).start()

    def _open_one(self) -> None:
        env, error = None, None
        try:
            env = self._open()
        except BaseException as caught:  # noqa: BLE001 - raised again where somebody waits
            error = caught
        with self._change:
            self._opening -= 1
            if env is None:
                self._on_failure(error)
            elif self._closed:
                self._discard(env)
            else:
                self._opened += 1
                self._failures = 0
                self._idle.append(env)
            self._balance()
            self._change.notify_all()
        self._serve()

    def _on_failure(self, error: BaseException | None) -> None:
        """Tell the one who waits longest; else try again later."""
        logger.debug("an environment could not be opened: %s", type(error).__name__)
        while self._waiters:
            waiter = self._waiters.popleft()
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(error)
                return
        self._not_before = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1

    def _discard(self, env: BaseEnvironment) -> None:
        """Begin to close one; the lock is held."""
        self._closing += 1
        threading.Thread(target=self._close_one, args=(env,), name="hermes-env-pool-close", daemon=True).start()

    def _close_one(self, env: BaseEnvironment) -> None:
        error = None
        try:
            env.close()
        except Exception as caught:  # noqa: BLE001 - raised when the pool is closed
            error = caught
        with self._change:
            self._closing -= 1
            if error is not None:
                self._errors.append(error)
            self._balance()
            self._change.notify_all()

    def _keep(self) -> None:
        """Look at idle environments from time to time, and try again what could not be opened."""
        look = time.monotonic() + self._check_every
        while True:
            with self._change:
                now = time.monotonic()
                again = max(self._not_before, now + 0.05) if self._failures else look
                self._change.wait(max(0.0, min(look, again) - now))
                if self._closed:
                    return
                self._balance()
            if time.monotonic() >= look:
                self._check_idle()
                look = time.monotonic() + self._check_every

    def _check_idle(self) -> None:
        for _ in range(len(self._idle)):
            with self._change:
                if self._closed or not self._idle:
                    return
                env = self._look_at()
            fit = self._is_fit(env)
            with self._change:
                self._looked_at(env, fit=fit)
        self._serve()

    def close(self) -> None:
        """Close every environment, also those that are taken, and wait until that is done. Idempotent.

        Raises:
            ExceptionGroup: Environments that could not be closed.
        """
        with self._change:
            first, self._closed = not self._closed, True
            waiters, envs = list(self._waiters), [*self._idle, *self._looked, *self._taken]
            for held in (self._waiters, self._idle, self._looked, self._taken):
                held.clear()
            if first:
                for env in envs:
                    self._discard(env)
            self._change.notify_all()
            for waiter in waiters:
                if waiter.set_running_or_notify_cancel():
                    waiter.set_exception(EnvironmentGone("the pool was closed while this caller was waiting"))
            self._change.wait_for(lambda: not self._opening and not self._closing)
            errors, self._errors = self._errors, []
        if threading.current_thread() is not self._keeper:
            self._keeper.join()
        if errors:
            raise ExceptionGroup("environments of the pool that did not close", errors)
