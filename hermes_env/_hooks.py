"""What a backend fills in; every hook has a default, so that a small backend stays small."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

from ._capabilities import Capabilities, StdinMode
from ._errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from ._blocks import Downloads
    from ._launch import Channel, Launch
    from ._probe import Probe


class LazyOptions:
    """Stands for a backend's options model and imports it, and with it pydantic, when it is first asked for."""

    def __init__(self, path: str) -> None:
        self._module, _, self._name = path.partition(":")

    def __get__(self, instance: object, owner: type) -> type[Any]:
        model: type[Any] = getattr(importlib.import_module(self._module), self._name)
        return model


class BackendHooks:
    """Declarations and hooks of a backend; the framework calls them, users never do."""

    api_version: ClassVar[int] = 1
    """Version of the contract between framework and backend."""
    stdin_mode: ClassVar[StdinMode] = StdinMode.PIPE
    capabilities: Capabilities = Capabilities()
    Options: ClassVar[Any] = None
    """A `BackendOptions` model or `LazyOptions`; None when the backend takes no options."""
    install: ClassVar[str] = ""
    """Command that installs what the backend needs."""
    sdk_packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions matter to what the provider does."""

    carries_env: ClassVar[bool] = False
    """The backend puts `Launch.env` into the process environment, by a way that is not an argv."""
    carries_cwd: ClassVar[bool] = False
    """The backend starts the command in `Launch.cwd`, and raises the builtin `OSError` when it cannot."""
    carries_bytes: ClassVar[bool] = False
    """Arguments of any bytes but NUL arrive unchanged; otherwise only ASCII is put into them."""
    _runs_inline: ClassVar[bool] = False

    @classmethod
    def _unavailable(cls) -> str | None:
        """Why this backend cannot be used here, without importing its SDK; None when nothing is known against it."""
        return None

    def _open(self) -> None:
        """Make or join what commands run in.

        Raises:
            BackendUnavailable: It cannot be made; nothing is left behind.
        """

    def _close(self) -> None:
        """Undo what `_open` made. Called once, when no command runs any more."""

    def _attach(self, ident: str) -> None:  # noqa: ARG002 - for the backends that can
        """Join what another client made; `ident` is what its `_ident` gave.

        Raises:
            EnvironmentGone: It no longer exists.
            BackendUnavailable: It cannot be reached.
        """
        raise Unsupported(f"{type(self).__name__} cannot attach: it does not declare `reattach`")

    def _let_go(self) -> None:
        """Release this client's connections, and leave the environment to others."""

    @classmethod
    def _located(cls, ident: str) -> Mapping[str, Any]:  # noqa: ARG003 - for the backends whose idents hold options
        """Options that an ident stands for, such as a host: they need not be given again, and cannot be contradicted.

        Raises:
            InvalidArgument: Not an ident of this backend.
        """
        return {}

    def _ident(self) -> str:
        """What names this environment at its provider."""
        raise Unsupported(f"{type(self).__name__} has no ref: it does not declare `reattach`")

    @classmethod
    def _reap(cls, options: Any) -> list[str]:  # noqa: ARG003 - for the backends that have something to reap
        """Remove what dead clients of this machine left at the provider; idents of what was removed."""
        return []

    def _reserve(self, command_id: str, cancelled: Callable[[], bool]) -> None:
        """Wait until one more command can be taken, or `cancelled` says that it is no longer wanted.

        Raises:
            BackendUnavailable, EnvironmentGone: It will not be taken; nothing ran.
        """

    def _release(self, command_id: str) -> None:
        """Let go of what `_reserve` holds for a command, however the command ended. Idempotent."""

    def _launch(self, launch: Launch) -> Channel:
        """Start a command.

        Raises:
            BackendUnavailable, EnvironmentGone: It was not started.
            ConnectionError: It is not known whether it was started.
        """
        raise NotImplementedError

    def _alive(self) -> bool:
        """Whether the environment can take a command; asks the provider where that costs little."""
        return True

    def _expires_at(self) -> datetime | None:
        """When the provider ends the environment by itself; None when it does not."""
        return None

    def _credentials(self) -> str | None:
        """Where the credentials of this environment came from, never what they are; `hermes-env doctor` shows it."""
        return None

    def _probes(self, patience: float) -> Sequence[Probe]:  # noqa: ARG002 - for the backends that have questions
        """Questions about the provider that only its live service answers, for ``hermes-env probe``.

        Args:
            patience: Seconds that one of them may take.
        """
        return ()

    # -- the framework's own, not for backends ---------------------------------------------------------------------

    def _before_open(self) -> None:
        """What the framework itself keeps while the environment is open."""

    def _after_open(self) -> None:
        """What the framework itself makes inside the environment."""

    def _before_close(self) -> None:
        """Remove what `_after_open` made; the environment may be gone already."""

    def _after_close(self) -> None:
        """Let go of what `_before_open` keeps."""

    def _downloads(self) -> Downloads | None:
        """How files can be downloaded where they are; None where they are printed by a command."""
        return None
