"""An MCP server on one environment: its commands and files as tools, over stdio or HTTP, on the package ``mcp``."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hermes_env import CommandTimeout, HermesEnvError, InvalidArgument, aio
from hermes_env.adapters import runtime
from hermes_env.tools import FilePolicy, FileTools, ReadOutcome, call

from . import _http, _tools

with runtime("mcp"):
    import anyio
    import mcp_types as types
    import uvicorn
    from mcp.server import Server
    from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from hermes_env import BaseEnvironment

__all__ = ["Host", "Settings", "serve_http", "serve_stdio"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server serves."""

    policy: Callable[[str], FilePolicy] = lambda workspace: FilePolicy(workspace=workspace)
    """Makes the policy of the file tools from the workspace's real path."""
    workspace: str = "."
    """Directory inside that file tools stay in and commands begin in."""
    confirm: bool = False
    """Edits that the policy wants confirmed are made; otherwise they are refused."""
    commands: bool = True
    """Offer ``exec``, which no file policy binds."""
    session: bool = True
    """Commands share one session, for all clients; otherwise each stands alone, and they may run at once."""
    timeout: float = 600.0
    """Seconds for one command, and the most that a client can ask for."""
    output_limit: int = 64 << 10
    """Bytes shown of each output stream."""


class Host:
    """The environment that a server works on."""

    def __init__(self, open_env: Callable[[], BaseEnvironment], settings: Settings) -> None:
        self._open, self._settings = open_env, settings
        self.env: aio.Environment | None = None
        self.failure: BaseException | None = None
        """Why it cannot be served; transports wrap or swallow it."""

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Keep the environment open for as long as the server serves."""
        try:
            async with self._serving():
                yield
        except (HermesEnvError, OSError) as error:
            self.failure = error
            raise

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        settings = self._settings
        async with aio.Opening(self._open, aio.MAX_CONCURRENCY) as env:
            self.env = env
            found = await env.exec(["sh", "-c", 'cd -P -- "$1" && pwd -P', "sh", settings.workspace])
            if not found.ok:
                raise InvalidArgument("workspace", f"is no directory inside: {found.stderr_text.strip()}")
            self._root = found.text.removesuffix("\n")
            confirm = (lambda _event, _reasons: True) if settings.confirm else None
            self._tools = FileTools(env.sync, settings.policy(self._root), confirm=confirm, note="mcp")
            self._session = await env.session(cwd=self._root) if settings.session and settings.commands else None
            yield

    async def list_tools(self, _: object, __: object) -> types.ListToolsResult:
        """Answer ``tools/list``."""
        settings = self._settings
        return types.ListToolsResult(tools=_tools.definitions(commands=settings.commands, session=settings.session))

    async def call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer ``tools/call``; a tool that fails is an answer, too."""
        given = params.arguments or {}
        try:
            if params.name == "exec" and self._settings.commands:
                return await _tools.whole(self._exec(ctx, _tools.ExecInput.model_validate(given)))
            if params.name == "list":
                return _tools.answer(await self._work(self._list, _tools.ListInput.model_validate(given).path))
            if params.name in _tools.FILE_TOOLS:
                return _tools.answer(await self._work(call, self._tools, _tools.FILE_TOOLS[params.name], given))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            return _tools.text_result(f"invalid arguments: {problems}", is_error=True)
        except (HermesEnvError, OSError) as error:
            return _tools.text_result(f"{type(error).__name__}: {error}", is_error=True)
        return _tools.text_result(f"there is no tool {params.name!r}", is_error=True)

    async def _work(self, tool: Callable[..., Any], *args: Any) -> Any:
        """A file tool, to its end also when its caller no longer waits: edits are made whole."""
        assert self.env is not None
        with anyio.CancelScope(shield=True):
            return await self.env.work(lambda: tool(*args))

    def _list(self, path: str) -> ReadOutcome:
        outcome: ReadOutcome = self._tools.view(path)
        if outcome.ok and outcome.kind != "directory":
            return ReadOutcome(ok=False, path=outcome.path, kind=outcome.kind, notes=["this is no directory"])
        return outcome

    async def _exec(self, ctx: ServerRequestContext[Any], asked: _tools.ExecInput) -> types.CallToolResult:
        settings: dict[str, Any] = {
            "stdin": None if asked.stdin is None else asked.stdin.encode("utf-8", "surrogateescape"),
            "env": asked.env,
            "timeout": min(asked.timeout or self._settings.timeout, self._settings.timeout),
            "output_limit": self._settings.output_limit,
            "on_output": _tools.progress(ctx) if (ctx.meta or {}).get("progress_token") is not None else None,
        }
        assert self.env is not None
        try:
            if self._session is not None:
                result = await self._session.exec(asked.command, cwd=asked.cwd, **settings)
            else:
                cwd = os.path.join(self._root, asked.cwd or "")
                result = await self.env.exec(asked.command, cwd=cwd, **settings)
        except CommandTimeout as error:
            return _tools.shown(error.result, timed_out=True)
        return _tools.shown(result)

    def server(self) -> Server[None]:
        """The server, for any transport of the package ``mcp``."""
        return Server(
            "hermes-env",
            version=version("hermes-env"),
            lifespan=self.lifespan,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )


async def serve_stdio(host: Host) -> None:
    """Serve one client over stdin and stdout until it closes stdin; everything else goes to stderr."""
    loop, server = asyncio.get_running_loop(), host.server()

    async def leave(number: int) -> None:
        try:
            if host.env is not None:
                await host.env.close()
        finally:
            os._exit(128 + number)  # A thread still reads stdin, and nothing can make it stop.

    leaving: list[asyncio.Task[None]] = []

    def on_signal(number: int) -> None:
        leaving.append(loop.create_task(leave(number)))

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except ExceptionGroup as error:
        raise host.failure or error from None


async def serve_http(
    host: Host, address: str, port: int, token: str, *, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Serve over streamable HTTP at ``/mcp`` until the process is told to end.

    Args:
        host: What to serve.
        address: Address to listen at.
        port: TCP port; 0 takes a free one.
        token: What every request must bring as ``Authorization: Bearer``. Whoever has it runs commands.
        ready: Called with the URL when requests are taken.
    """
    app = _http.Guard(host.server().streamable_http_app(host=address), token)
    quiet: dict[str, Any] = {"log_config": None, "log_level": "critical"}
    config = uvicorn.Config(app, host=address, port=port, timeout_graceful_shutdown=5, lifespan="on", **quiet)
    try:
        await _http.ListeningServer(config, ready).serve()
    finally:
        if host.failure is not None:  # It would end the process by an exit code of its own.
            raise host.failure
