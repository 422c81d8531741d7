"""A blocking call of an SDK on a thread of its own, which can be left behind when it does not return."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """Runs `work` at once. Nobody can interrupt an SDK, so whoever gives up names what to do when it returns."""

    def __init__(self, work: Callable[[], T], ended: Callable[[], None] | None = None) -> None:
        self._work = work
        self._ended = ended
        self._value: T  # set when the call returned
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._late: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name="hermes-env-call", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001 - `result` raises it in the caller's thread
            self._error = error
        with self._lock:
            self._done.set()
            late = self._late
        if self._ended is not None:
            self._ended()
        if late is not None:
            late()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the call; False when `timeout` seconds ran out."""
        return self._done.wait(timeout)

    def result(self) -> T:
        """What the call returned, or what it raised. Only after `wait`."""
        if self._error is not None:
            raise self._error
        return self._value

    def leave(self, late: Callable[[], None]) -> bool:
        """Go on without it; `late` is called when it returns. False, and no call, when it has returned already."""
        with self._lock:
            if self._done.is_set():
                return False
            self._late = late
            return True


def bounded(work: Callable[[], T], seconds: float) -> T:
    """Do `work`, but wait `seconds` at most.

    Raises:
        ConnectionError: It did not return in time, or failed by an error that is not ours.
    """
    call = Call(work)
    if not call.wait(seconds):
        raise ConnectionError(f"the backend did not answer within {seconds:g} s")
    return call.result()


def within(seconds: float, what: str, work: Callable[[], T], late: Callable[[T], object] | None = None) -> T:
    """Do `work` on a thread of its own, and wait `seconds` at most: for SDKs whose own deadlines do not cover a call.

    Args:
        seconds: The deadline.
        what: The work, for the message.
        work: A blocking call of the SDK.
        late: Gets the result of a call that nobody waited for.

    Raises:
        TimeoutError: It did not return in time; it goes on.
    """
    call = Call(work)

    def give() -> None:
        with contextlib.suppress(BaseException):
            result = call.result()
            if late is not None:
                late(result)

    try:
        finished = call.wait(seconds)
    except BaseException:
        if not call.leave(give):
            give()
        raise
    if finished or not call.leave(give):
        return call.result()
    raise TimeoutError(f"{what}: no answer within {seconds:g} s")
