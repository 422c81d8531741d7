"""The error tree: what a caller can catch, and what each error says to do.

::

    HermesEnvError
    ├── InvalidArgument (ValueError)      refused before anything ran; names the argument
    ├── Unsupported                       this environment cannot do it, and never pretends to
    ├── BackendNotFound                   no backend of that name
    ├── BackendUnavailable                .reason: not_installed | no_credentials | denied | capacity | unreachable
    │   └── PoolExhausted (TimeoutError)  no environment of a pool came free in time
    ├── EnvironmentGone                   closed, removed or expired
    ├── CommandTimeout (TimeoutError)     .result: what came so far
    ├── CommandCancelled                  .result
    ├── CommandFailed                     .result; only with check=True
    ├── OutcomeUnknown                    .result; the command may have run: it is never run again
    ├── SessionLost                       what a session keeps is gone; nothing ran
    ├── FileChanged                       a file changed while it was read, or is not what the caller expected
    ├── VerificationError                 bytes that arrived are not the bytes that were sent
    ├── RollbackFailed                    .paths: a batch of changes failed and these could not be put back
    └── TransportError                    bytes could not be carried
        ├── PayloadTooLarge               over a limit of the backend; nothing ran
        └── StagingError                  a private file could not be staged; nothing ran

File operations raise the builtin ``OSError`` family with errno and the caller's path. A non-zero exit is a result,
not an error. A provider's own failure is never presented as a command's output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ._result import ExecResult

UnavailableReason = Literal["not_installed", "no_credentials", "denied", "capacity", "unreachable"]


class HermesEnvError(Exception):
    """Base of every error that this package defines.

    Attributes:
        retryable: True when the same call may succeed later and nothing ran; False when it will not;
            None when that is not known.
    """

    retryable: bool | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders whole: constructors with other arguments than `args` break pickle."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[HermesEnvError], args: tuple[Any, ...], state: dict[str, Any]) -> HermesEnvError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidArgument(HermesEnvError, ValueError):
    """An argument was refused before anything ran.

    Attributes:
        argument: Name of the parameter, for example ``"cwd"`` or ``"env['PATH']"``.
    """

    retryable = False

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument


class Unsupported(HermesEnvError):
    """The environment declares that it cannot do this, or was found unable to."""

    retryable = False


class BackendNotFound(HermesEnvError):
    """No backend is registered under that name."""

    retryable = False


class BackendUnavailable(HermesEnvError):
    """A backend exists but cannot be used now; the message says what to do.

    Attributes:
        reason: One of ``not_installed``, ``no_credentials``, ``denied``, ``capacity``, ``unreachable``.
    """

    def __init__(self, message: str, *, reason: UnavailableReason) -> None:
        super().__init__(message)
        self.reason = reason
        self.retryable = reason in ("capacity", "unreachable")


class PoolExhausted(BackendUnavailable, TimeoutError):
    """Every environment of a pool was in use for as long as the caller would wait."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="capacity")


class EnvironmentGone(HermesEnvError):
    """The environment is closed, or its container, host or sandbox no longer exists."""

    retryable = False


class SessionLost(HermesEnvError):
    """The state of a session was removed, or could not be saved after its last command; nothing ran."""

    retryable = False


class FileChanged(HermesEnvError):
    """A file is not, or did not stay, what the caller expected; nothing was written."""

    retryable = True

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class VerificationError(HermesEnvError):
    """Bytes that arrived differ from the bytes that were sent.

    Attributes:
        path: The caller's path.
        expected_size, actual_size: Sizes in bytes; None where unknown.
        expected_digest, actual_digest: Hex digests; None where unknown.
    """

    retryable = True

    def __init__(
        self,
        path: str,
        problem: str,
        *,
        expected_size: int | None = None,
        actual_size: int | None = None,
        expected_digest: str | None = None,
        actual_digest: str | None = None,
    ) -> None:
        sizes = f"expected {expected_size} bytes {expected_digest}, got {actual_size} bytes {actual_digest}"
        super().__init__(f"{path}: {problem} ({sizes})")
        self.path = path
        self.expected_size, self.actual_size = expected_size, actual_size
        self.expected_digest, self.actual_digest = expected_digest, actual_digest


class RollbackFailed(HermesEnvError):
    """A batch of changes failed, and what was done already could not be put back; the cause is chained.

    Attributes:
        paths: The caller's paths that are not as they were. Their old bytes are kept beside them, in a file whose
            name begins with ``.hermes+`` and ends in ``.bak``.
    """

    retryable = False

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(f"these changes could not be undone: {', '.join(paths)}")
        self.paths = paths


class TransportError(HermesEnvError):
    """The backend could not carry the bytes; nothing is known to have gone wrong in the command itself."""


class PayloadTooLarge(TransportError):
    """A payload or script is over a limit that the backend declares; nothing ran."""

    retryable = False


class StagingError(TransportError):
    """A private file could not be staged; the command was not dispatched."""

    retryable = True


class CommandError(HermesEnvError):
    """Base of the errors that carry the result of a command so far.

    Attributes:
        result: Output, totals and state at the moment the error was raised.
    """

    def __init__(self, message: str, result: ExecResult) -> None:
        super().__init__(message)
        self.result = result


class CommandTimeout(CommandError, TimeoutError):
    """The deadline passed; the command and its whole tree were killed."""


class CommandCancelled(CommandError):
    """The command was killed, or cancelled before it was dispatched."""


class CommandFailed(CommandError):
    """``check=True`` and the exit code is not 0."""

    retryable = False


class OutcomeUnknown(CommandError):
    """The link was lost after dispatch: the command may have run, in part or whole. It is never run again."""

    retryable = False
