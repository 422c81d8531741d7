"""The one place where the SDK's errors become ours, by class, status and code, never by message."""

from __future__ import annotations

import contextlib

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, InvalidArgument, sdk_errors

from . import _sdk

ENDED = frozenset({"sandbox_stopped", "sandbox_stopping", "sandbox_snapshotting"})
"""Codes that say that a sandbox takes no commands any more."""
LOST = "sandbox_stream_closed"
"""The service lost its own connection to the sandbox, which may well run on; answered as 410, too."""
DENIED, REFUSED, GONE, TOO_MUCH = (401, 402, 403), (400, 409, 413, 422), (404, 410), 429


def translated(what: str) -> contextlib.AbstractContextManager[None]:
    """Raise our error for what a call of the control plane raised.

    Raises:
        EnvironmentGone: The sandbox does not exist.
        BackendUnavailable: Anything else that keeps the call from its work.
        InvalidArgument: Vercel refuses what was asked for.
    """
    return sdk_errors(what, _ours)


def _ours(error: Exception, what: str) -> HermesEnvError | None:
    if isinstance(error, TimeoutError):
        return BackendUnavailable(str(error), reason="unreachable")
    return None if _sdk.failure_of(error) is None else translate(error, what)


def translate(error: BaseException, what: str) -> HermesEnvError:
    """Our error for one of the SDK's."""
    failure = _sdk.failure_of(error)
    text = f"{what}: {error or type(error).__name__}"
    if failure is None or failure.status is None or failure.code == LOST:
        return BackendUnavailable(text, reason="unreachable")
    if failure.code in ENDED or failure.status in GONE:
        return EnvironmentGone(text)
    if failure.status in REFUSED:
        return InvalidArgument("options", text)
    if failure.status in DENIED:
        return BackendUnavailable(text, reason="denied")
    return BackendUnavailable(text, reason="capacity" if failure.status == TOO_MUCH else "unreachable")
