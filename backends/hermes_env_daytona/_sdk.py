"""The SDK: which of its two packages is used, by whose credentials, and one client for all who share them."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any

from hermes_env import BackendUnavailable

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ._options import DaytonaOptions

INSTALL = "pip install 'hermes-env[daytona]'"
CREDENTIALS = (
    "no Daytona credentials: make a key at https://app.daytona.io/dashboard/keys (scopes write:sandboxes and "
    "delete:sandboxes) and give it as DAYTONA_API_KEY or option api_key"
)
_PACKAGES = ("daytona", "daytona_sdk")
"""The maintained package, and its deprecated copy under another name: their classes are different objects."""

_clients: dict[tuple[str, ...], Any] = {}
_lock = threading.Lock()


def package() -> str | None:
    """Import name of the installed SDK; it is not imported to find out."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name) is not None), None)


def load() -> Any:
    """The SDK's module.

    Raises:
        BackendUnavailable: It is not installed.
    """
    name = package()
    if name is None:
        raise BackendUnavailable(f"the package `daytona` is not installed: {INSTALL}", reason="not_installed")
    with warnings.catch_warnings():
        # The copy announces on import that it will be discontinued.
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)


def connect(options: DaytonaOptions) -> Any:
    """A client with these credentials.

    Clients are shared and kept: each holds connections, threads and an event socket that it never closes (SDK 0.226.1).

    Raises:
        BackendUnavailable: No SDK, or no credentials.
    """
    sdk, settings = load(), _settings(options)
    secret = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()
    key = (sdk.__name__, str(os.getpid()), os.getcwd() if options.dotenv else "", secret)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = _make(sdk, settings)
        return client


def _make(sdk: Any, settings: dict[str, Any]) -> Any:
    try:
        # Given explicitly, so that no file of the working directory decides it.
        return sdk.Daytona(sdk.DaytonaConfig(**settings, use_deprecated_polling=False))
    except sdk.DaytonaAuthenticationError as error:
        raise BackendUnavailable(CREDENTIALS, reason="no_credentials") from error


def transfer_client() -> Any:
    """A client for file transfers, one at a time; it honours the environment's proxies, as the SDK's own does."""
    http = importlib.import_module("httpx")
    return http.Client(verify=_certificates(), limits=http.Limits(max_connections=1))


@functools.cache
def _certificates() -> Any:
    """Whom to trust: reading that takes tens of milliseconds."""
    return importlib.import_module("httpx").create_ssl_context()


def _settings(options: DaytonaOptions) -> dict[str, str]:
    """Credentials and addresses: arguments first, then the environment."""
    given = {
        "api_key": _first(options.api_key, "DAYTONA_API_KEY"),
        "jwt_token": _first(options.jwt_token, "DAYTONA_JWT_TOKEN"),
        "organization_id": _first(options.organization, "DAYTONA_ORGANIZATION_ID"),
        "api_url": _first(options.api_url, "DAYTONA_API_URL"),
        "target": _first(options.target, "DAYTONA_TARGET"),
    }
    if options.jwt_token is not None and options.api_key is None:
        given["api_key"] = None
    found = {name: value for name, value in given.items() if value}
    complete = "api_key" in found or found.keys() >= {"jwt_token", "organization_id"}
    if not complete and not options.dotenv:
        raise BackendUnavailable(CREDENTIALS, reason="no_credentials")
    return found


def source(options: DaytonaOptions) -> str:
    """Where the credentials come from."""
    if options.api_key is not None or options.jwt_token is not None:
        return "option api_key" if options.api_key is not None else "option jwt_token"
    named = [name for name in ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN") if os.environ.get(name)]
    return named[0] if named else ".env.local or .env of the working directory"


def _first(value: SecretStr | str | None, variable: str) -> str | None:
    given = value if isinstance(value, str | None) else value.get_secret_value()
    return given or os.environ.get(variable)
