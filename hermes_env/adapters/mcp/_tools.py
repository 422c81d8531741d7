"""The tools of the MCP server: their schemas, and what they answer."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from hermes_env.adapters import runtime
from hermes_env.tools import ReadOutcome, tool_schemas

with runtime("mcp"):
    import anyio
    import mcp_types as types

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from hermes_env import ExecResult, Stream

FILE_TOOLS = {
    "read": "read_file", "write": "write_file", "str_replace": "str_replace", "insert": "insert",
    "apply_patch": "apply_patch",
}  # fmt: skip
"""Names here, and those of `hermes_env.tools.tool_schemas`, whose schemas they have."""


class ExecInput(BaseModel):
    """Arguments of ``exec``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: str = Field(min_length=1, description="Shell script to run.")
    cwd: str | None = Field(default=None, min_length=1, description="Directory to start in.")
    stdin: str | None = Field(default=None, description="Text for its standard input; none is end-of-file at once.")
    env: dict[str, str] = Field(default={}, description="Variables for this command alone.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds after which it is killed.")


class ExecOutput(BaseModel):
    r"""What ``exec`` gives; bytes that are no UTF-8 are shown as ``\xNN``."""

    exit_code: int = Field(description="128 and more: killed by a signal; -1: not known.")
    stdout: str
    stderr: str
    stdout_bytes: int = Field(description="Bytes written, also those that are not shown.")
    stderr_bytes: int
    truncated: bool = Field(description="Over the limit the first and the last half of it are shown.")
    timed_out: bool = False


class ListInput(BaseModel):
    """Arguments of ``list``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: str = Field(default=".", min_length=1, description="A directory, relative to the workspace or absolute.")


def definitions(*, commands: bool, session: bool) -> list[types.Tool]:
    """The tools that a server offers."""
    known = {schema["name"]: schema for schema in tool_schemas("mcp")}
    tools = [types.Tool.model_validate({**known[theirs], "name": ours}) for ours, theirs in FILE_TOOLS.items()]
    about = "List the names in a directory; a slash marks directories, an arrow links."
    tools.append(tool_of("list", about, ListInput, annotations=types.ToolAnnotations(read_only_hint=True)))
    if commands:
        kept = "; directory, exported variables and functions last from call to call" if session else ""
        tools.append(tool_of("exec", f"Run a shell command{kept}.", ExecInput, output_schema=schema_of(ExecOutput)))
    return tools


def progress(ctx: ServerRequestContext[Any]) -> Callable[[Stream, bytes], Any]:
    """Tells a caller who asks for it what a command writes, as it comes: bytes so far, and the new text."""
    decoders = {name: codecs.getincrementaldecoder("utf-8")("backslashreplace") for name in ("stdout", "stderr")}
    so_far = 0

    async def tell(stream: Stream, data: bytes) -> None:
        nonlocal so_far
        so_far += len(data)
        await ctx.session.report_progress(so_far, None, decoders[stream].decode(data))

    return tell


async def whole(work: Any) -> types.CallToolResult:
    """Run a command; when its caller no longer waits, kill it and wait for that."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise


def shown(result: ExecResult, *, timed_out: bool = False) -> types.CallToolResult:
    output = ExecOutput(
        exit_code=result.exit_code,
        stdout=result.stdout.decode("utf-8", "backslashreplace"),
        stderr=result.stderr.decode("utf-8", "backslashreplace"),
        stdout_bytes=result.stdout_total,
        stderr_bytes=result.stderr_total,
        truncated=result.truncated,
        timed_out=timed_out,
    )
    parts = [output.stdout, output.stderr and f"[stderr]\n{output.stderr}"]
    code = f"[exit code {result.exit_code}]" if result.exit_code else ""
    parts.append("[killed: out of time]" if timed_out else code)
    parts.append("[output cut: its first and last parts are shown]" if output.truncated else "")
    return text_result("\n".join(filter(None, parts)), output, is_error=timed_out)


def answer(outcome: Any) -> types.CallToolResult:
    if isinstance(outcome, ReadOutcome):
        lines = [outcome.text, *(f"[{note}]" for note in outcome.notes)]
    else:
        lines = [outcome.status, outcome.diff, *outcome.warnings, *outcome.reports]
    lines += [outcome.error.message] if outcome.error else []
    return text_result("\n".join(filter(None, lines)), outcome, is_error=not outcome.ok)


def text_result(text: str, structure: BaseModel | None = None, *, is_error: bool = False) -> types.CallToolResult:
    structured = None if structure is None else structure.model_dump(mode="json")
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=structured, is_error=is_error)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(mode="serialization")


def tool_of(name: str, description: str, arguments: type[BaseModel], **rest: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=arguments.model_json_schema(), **rest)
