"""The one place where the SDK's errors become ours, by class, never by message.

Read from SDK 1.6.4. Errors of the control plane are `modal.exception.Error`; a worker that cannot be reached is the
builtin `ConnectionError`, a class of its own. Several have no message at all.
"""

from __future__ import annotations

import contextlib

from hermes_env import BackendUnavailable, EnvironmentGone, HermesEnvError, InvalidArgument, sdk_errors


def name_of(error: BaseException) -> str:
    """What the SDK says, or at least the name of its class."""
    return str(error) or type(error).__name__


def is_sdk_error(error: BaseException) -> bool:
    """Whether the SDK raises such an error when a call goes wrong."""
    from grpclib.exceptions import GRPCError, StreamTerminatedError
    from modal.exception import Error

    return isinstance(error, Error | OSError | TimeoutError | GRPCError | StreamTerminatedError)


def closed_stdin(error: BaseException) -> bool:
    """Whether a refused write of stdin means that the command reads no more, or has ended."""
    from modal.exception import ConflictError

    return isinstance(error, ConflictError)


def refused(error: BaseException) -> bool:
    """Whether the service answered for certain that it did not start a command.

    Not when it says that the command exists already: the SDK had sent the request before, and lost the answer.
    """
    from modal import exception as sdk

    return isinstance(
        error,
        sdk.AuthError
        | sdk.InvalidError
        | sdk.NotFoundError
        | sdk.PermissionDeniedError
        | sdk.ResourceExhaustedError
        | sdk.UnimplementedError
        | sdk.ClientClosed,
    )


def translated(what: str) -> contextlib.AbstractContextManager[None]:
    """Raise our error for what a call of the SDK raised.

    Raises:
        EnvironmentGone: The sandbox does not exist, or has ended.
        BackendUnavailable: Anything else that keeps the call from its work.
        InvalidArgument: Modal refuses what was asked for.
    """
    return sdk_errors(what, _ours)


def _ours(error: Exception, what: str) -> HermesEnvError | None:
    return translate(error, what) if is_sdk_error(error) else None


def translate(error: BaseException, what: str, argument: str = "options") -> HermesEnvError:
    """Our error for one of the SDK's; `argument` is to blame when the service calls the request invalid."""
    from modal import exception as sdk

    text = f"{what}: {name_of(error)}"
    if isinstance(error, sdk.NotFoundError | sdk.SandboxTerminatedError | sdk.SandboxTimeoutError | sdk.ClientClosed):
        return EnvironmentGone(text)
    if isinstance(error, sdk.ConflictError):
        # A command for a sandbox that has ended.
        return EnvironmentGone(text)
    if isinstance(error, sdk.InvalidError | sdk.AlreadyExistsError | sdk.ImageBuildError):
        return InvalidArgument(argument, text)
    if isinstance(error, sdk.AuthError | sdk.PermissionDeniedError):
        return BackendUnavailable(text, reason="denied")
    if isinstance(error, sdk.ResourceExhaustedError):
        return BackendUnavailable(text, reason="capacity")
    if isinstance(error, sdk.VersionError | sdk.UnimplementedError):
        return BackendUnavailable(f"{text}; another version of the package `modal` may help", reason="not_installed")
    return BackendUnavailable(text, reason="unreachable")
