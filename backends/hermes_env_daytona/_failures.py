"""The one place where the SDK's errors become ours, by class and status code, never by message.

Read from SDK 0.226.1: uploads raise the plain `DaytonaError` with a status, downloads the plain one with the status
only in the `httpx` error behind it; older daemons give base classes only. Both names of the SDK have classes of their
own, so the classes are looked up by name in what was raised.
"""

from __future__ import annotations

import contextlib

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, InvalidArgument, sdk_errors

_GONE = (404, 410)


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind an error; None when there was no answer."""
    seen: BaseException | None = error
    while seen is not None:
        status = getattr(seen, "status_code", None)
        if status is None:
            status = getattr(getattr(seen, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
        seen = seen.__cause__
    return None


def is_sdk_error(error: BaseException, name: str = "DaytonaError") -> bool:
    """Whether an error is of this class of either package, or derived from it."""
    return any(
        kind.__name__ == name and kind.__module__.split(".", 1)[0] in ("daytona", "daytona_sdk")
        for kind in type(error).__mro__
    )


def ran_out_of_time(error: BaseException) -> bool:
    """Whether Daytona ended a command by the time limit that was given to it."""
    # DaytonaConnectionTimeoutError derives from DaytonaTimeoutError, too, and says nothing about the command.
    return is_sdk_error(error, "DaytonaTimeoutError") and not is_sdk_error(error, "DaytonaConnectionError")


def translated(what: str) -> contextlib.AbstractContextManager[None]:
    """Raise our error for what a call of the control plane raised.

    Raises:
        EnvironmentGone: The sandbox does not exist.
        BackendUnavailable: Anything else that keeps the call from its work.
        InvalidArgument: Daytona refuses what was asked for.
    """
    return sdk_errors(what, _ours)


def _ours(error: Exception, what: str) -> HermesEnvError | None:
    if isinstance(error, TimeoutError):
        return BackendUnavailable(str(error), reason="unreachable")
    return translate(error, what) if is_sdk_error(error) else None


def translate(error: BaseException, what: str) -> HermesEnvError:
    """Our error for one of the SDK's."""
    status = status_of(error)
    text = f"{what}: {error}"
    if status in _GONE:
        return EnvironmentGone(text)
    if status in (400, 409, 422):
        return InvalidArgument("options", text)
    if status in (401, 402, 403) or is_sdk_error(error, "DaytonaAuthenticationError"):
        return BackendUnavailable(text, reason="denied")
    if status == 429:
        return BackendUnavailable(text, reason="capacity")
    return BackendUnavailable(text, reason="unreachable")
