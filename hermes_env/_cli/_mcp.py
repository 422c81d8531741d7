"""`hermes-env mcp`: an environment as an MCP server."""

from __future__ import annotations

import importlib
import os
import secrets
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hermes_env._errors import BackendUnavailable, InvalidArgument

from . import _failure
from ._parameters import Options, OptionsFile, Where, Yes  # noqa: TC001 - typer reads them

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from hermes_env.tools import FilePolicy

TOKEN_VARIABLE = "HERMES_ENV_MCP_TOKEN"  # noqa: S105 - the name of a variable


def mcp(
    name: Where,
    option: Options = None,
    options_file: OptionsFile = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve over HTTP at /mcp; port 0: a free one."),
    ] = None,
    workspace: Annotated[
        str, typer.Option("--workspace", metavar="DIR", help="Directory inside: file tools stay in it.")
    ] = ".",
    policy: Annotated[
        Literal["default", "codex", "openclaw", "helloagents", "claude_code"],
        typer.Option("--policy", help="Limits of the file tools."),
    ] = "default",
    yes: Yes = False,
    no_exec: Annotated[
        bool, typer.Option("--no-exec", help="Offer no commands: the policy binds file tools only.")
    ] = False,
    session: Annotated[
        bool | None,
        typer.Option("--session/--no-session", help="Let cd and exports last; the default over stdio, not over HTTP."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="The longest time of one command.")
    ] = 600.0,
    output_limit: Annotated[
        int, typer.Option("--output-limit", metavar="BYTES", min=0, help="Shown of each output stream of a command.")
    ] = 64 << 10,
) -> int:
    """Serve an environment to MCP clients: exec, read, write, str_replace, insert, apply_patch, list.

    Over HTTP every request must bring a token, the value of HERMES_ENV_MCP_TOKEN; without one a fresh token is told on
    stderr. Nothing but the protocol goes to stdout.
    """
    import asyncio

    from ._settings import settle

    address = None if http is None else _address(http)
    adapter = _adapter()
    settings = settle(name, option or (), options_file)
    host = adapter.Host(
        settings.open,
        adapter.Settings(
            policy=_policy(policy),
            workspace=workspace,
            confirm=yes,
            commands=not no_exec,
            session=address is None if session is None else session,
            timeout=timeout,
            output_limit=output_limit,
        ),
    )
    serving = adapter.serve_stdio(host)
    if address is not None:
        serving.close()
        serving = adapter.serve_http(host, *address, _token(), ready=lambda url: _failure.say(f"serving at {url}"))
    asyncio.run(serving)
    return 0


def _adapter() -> ModuleType:
    """What serves; it needs the extra `mcp`."""
    try:
        return importlib.import_module("hermes_env.adapters.mcp")
    except ImportError as error:
        raise BackendUnavailable(str(error), reason="not_installed") from error


def _policy(name: str) -> Callable[[str], FilePolicy]:
    from hermes_env.tools import FilePolicy

    policies: dict[str, Callable[[str], FilePolicy]] = {
        "default": lambda workspace: FilePolicy(workspace=workspace),
        "codex": FilePolicy.codex,
        "openclaw": FilePolicy.openclaw,
        "helloagents": FilePolicy.helloagents,
        "claude_code": FilePolicy.claude_code,
    }
    return policies[name]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:  # a TCP port has 16 bits
        raise InvalidArgument("--http", f"must be HOST:PORT, such as 127.0.0.1:8000, not {text!r}")
    return host, int(port)


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        token = secrets.token_urlsafe(24)
        _failure.say(f"every request needs the header Authorization: Bearer {token}")
    return token


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)
