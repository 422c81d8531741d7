"""Finds backends through entry points, and opens environments by name."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._base import BaseEnvironment
from ._errors import BackendNotFound, BackendUnavailable, HermesEnvError, InvalidArgument

if TYPE_CHECKING:
    from ._capabilities import Capabilities, StdinMode

GROUP = "hermes_env.backends"
API_VERSION = 1


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """One installed backend, as far as it can be told without importing its SDK."""

    name: str
    stdin_mode: StdinMode | None
    capabilities: Capabilities | None
    available: bool
    reason: str | None
    """Why it is not available."""
    install: str
    """Command that installs what it needs; empty when nothing is missing."""


def list_backends() -> list[BackendInfo]:
    """Every installed backend by name. A broken plugin is listed with its error; it hides none of the others."""
    names = sorted({point.name for point in importlib.metadata.entry_points(group=GROUP)})
    return [_info(name) for name in names]


def _info(name: str) -> BackendInfo:
    try:
        backend = load_backend(name)
        reason = backend._unavailable()  # noqa: SLF001 - a hook of the contract
    except HermesEnvError as error:
        return BackendInfo(name, None, None, available=False, reason=str(error), install="")
    except Exception as error:  # noqa: BLE001 - one broken plugin must not hide the others
        problem = f"backend {name!r} cannot tell whether it is available: {type(error).__name__}: {error}"
        return BackendInfo(name, None, None, available=False, reason=problem, install="")
    return BackendInfo(
        name,
        backend.stdin_mode,
        backend.capabilities,
        available=reason is None,
        reason=reason,
        install=backend.install if reason else "",
    )


def load_backend(name: str) -> type[BaseEnvironment]:
    """The class of a backend, by entry point name or as ``module:Class``.

    Raises:
        BackendNotFound: Nothing has that name.
        BackendUnavailable: It was found and cannot be loaded.
    """
    loaded = _load_path(name) if ":" in name else _load_entry_point(name)
    if not (isinstance(loaded, type) and issubclass(loaded, BaseEnvironment)):
        raise BackendUnavailable(
            f"backend {name!r} is not a class derived from BaseEnvironment", reason="not_installed"
        )
    if loaded.api_version != API_VERSION:
        problem = f"was written for version {loaded.api_version} of the contract; this is version {API_VERSION}"
        raise BackendUnavailable(f"backend {name!r} {problem}", reason="not_installed")
    return loaded


def _load_entry_point(name: str) -> object:
    points = list(importlib.metadata.entry_points(group=GROUP))
    for point in points:
        if point.name == name:
            return _guarded(name, point.load)
    known = ", ".join(sorted({point.name for point in points})) or "none"
    hint = "install its distribution, or give module:Class"
    raise BackendNotFound(f"no backend is named {name!r} (installed: {known}); {hint}")


def _load_path(path: str) -> object:
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise BackendNotFound(f"{path!r} is not of the form module:Class")
    module = _guarded(path, lambda: importlib.import_module(module_name))
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise BackendNotFound(f"module {module_name!r} has no {attribute!r}") from None


def _guarded(name: str, load: Any) -> object:
    """Whatever a plugin raises on import becomes one typed error that names it."""
    try:
        return load()
    except ModuleNotFoundError as error:
        problem = f"backend {name!r} cannot be imported: no module named {error.name!r}"
        raise BackendUnavailable(problem, reason="not_installed") from error
    except (Exception, SystemExit) as error:
        problem = f"backend {name!r} failed on import: {type(error).__name__}: {error}"
        raise BackendUnavailable(problem, reason="not_installed") from error


def open_environment(
    name: str,
    /,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **options: Any,
) -> BaseEnvironment:
    """Open an environment; it is started when this returns, and ``with`` closes it.

    Args:
        name: A backend's entry point name (see `list_backends`) or ``module:Class``.
        cwd: Working directory of every command and start of relative paths; None is the environment's default.
        env: Variables of every command.
        timeout: Default seconds for each command; None is no limit.
        **options: Options of the backend.

    Raises:
        BackendNotFound: No such backend.
        BackendUnavailable: It cannot be used; the message says what to do.
        InvalidArgument: An argument or option was refused; nothing was made.
    """
    return _make(name, options, cwd=cwd, env=env, timeout=timeout).open()


def attach(
    ref: str,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **options: Any,
) -> BaseEnvironment:
    """Join an environment that another client made. Closing it only lets go of it.

    Args:
        ref: What `BaseEnvironment.ref` or `BaseEnvironment.detach` gave.
        cwd: See `open_environment`.
        env: See `open_environment`.
        timeout: See `open_environment`.
        **options: Options of the backend that are needed to reach it, such as credentials.

    Raises:
        InvalidArgument: Not a ref, or an option contradicts it.
        Unsupported: The backend cannot attach.
        EnvironmentGone: It no longer exists.
        BackendNotFound, BackendUnavailable: As `open_environment`.
    """
    name, ident = split_ref(ref)
    located = locate(load_backend(name), ident, options)
    return _make(name, {**options, **located}, cwd=cwd, env=env, timeout=timeout).join(ident)


def locate(backend: type[BaseEnvironment], ident: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options that the ident of a ref stands for.

    Raises:
        InvalidArgument: Not an ident of the backend, or an option was given that says something else.
    """
    located = backend._located(ident)  # noqa: SLF001 - a hook of the contract
    for option, value in located.items():
        if option in given and given[option] != value:
            raise InvalidArgument(f"option {option!r}", "contradicts the ref, which says it already: leave it out")
    return located


def split_ref(ref: str) -> tuple[str, str]:
    """The backend's name and the identity in a ref.

    Raises:
        InvalidArgument: Not a ref.
    """
    name, separator, ident = ref.partition("://")
    if not separator or not name or not ident:
        raise InvalidArgument("ref", f"{ref!r} is not what `env.ref` gives: backend://identity")
    return name, ident


def reap(name: str, /, **options: Any) -> list[str]:
    """Remove what dead clients of this machine left at a provider; returns the identities of what was removed.

    Only objects whose label names this machine, this boot and a process that is gone are touched.

    Raises:
        BackendNotFound, BackendUnavailable, InvalidArgument: As `open_environment`.
    """
    backend = load_backend(name)
    return backend._reap(_parsed(backend, name, options))  # noqa: SLF001 - a hook of the contract


def _make(name: str, options: Mapping[str, Any], **settings: Any) -> BaseEnvironment:
    backend = load_backend(name)
    made = backend(_parsed(backend, name, options), **settings)
    made.backend_name = name
    return made


def _parsed(backend: type[BaseEnvironment], name: str, options: Mapping[str, Any]) -> Any:
    if backend.Options is None and not options:
        return None
    from ._options import parse_options

    return parse_options(backend, name, options)
