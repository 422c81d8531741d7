"""The tools as models read them: one input model each, and its schema in three calling styles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from hermes_env.tools._model import EditOutcome

Style = Literal["openai", "anthropic", "mcp"]
Schema = dict[str, Any]

_PATH: Final = "Path of the file, relative to the workspace or absolute."


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


FilePath = Annotated[str, Field(min_length=1, description=_PATH, validation_alias=AliasChoices("path", "file_path"))]


class ReadFileInput(_Input):
    """Arguments of ``read_file``."""

    path: FilePath
    offset: int = Field(default=1, ge=1, description="First line, from 1.")
    limit: int | None = Field(default=None, ge=1, description="How many lines; none for all that fit.")


class ViewInput(_Input):
    """Arguments of ``view``."""

    path: FilePath
    view_range: list[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="First and last line, from 1; -1 as the last line means the end.",
    )


class WriteFileInput(_Input):
    """Arguments of ``write_file``."""

    path: FilePath
    content: str = Field(
        description="The whole new content.",
        validation_alias=AliasChoices("content", "file_text", "contents"),
    )
    if_sha256: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="Write only if the file has this SHA-256 now.",
    )


class StrReplaceInput(_Input):
    """Arguments of ``str_replace``."""

    path: FilePath
    old_string: str = Field(
        description="The exact text to replace, with enough context to be unique in the file.",
        validation_alias=AliasChoices("old_string", "old_str"),
    )
    new_string: str = Field(
        default="",
        description="The text to write instead, literally.",
        validation_alias=AliasChoices("new_string", "new_str"),
    )
    replace_all: bool = Field(default=False, description="Replace every occurrence.")
    expected_count: int | None = Field(
        default=None, ge=1, description="Replace every occurrence if there are exactly so many."
    )


class InsertInput(_Input):
    """Arguments of ``insert``."""

    path: FilePath
    insert_line: int = Field(ge=0, description="Insert after this line; 0 for the start.")
    insert_text: str = Field(
        description="Whole lines to insert.",
        validation_alias=AliasChoices("insert_text", "new_str"),
    )


class ApplyPatchInput(_Input):
    """Arguments of ``apply_patch``."""

    patch: str = Field(
        min_length=1,
        description="The patch, from '*** Begin Patch' to '*** End Patch'.",
        validation_alias=AliasChoices("patch", "input"),
    )
    dry_run: bool = Field(default=False, description="Only report what would change.")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool."""

    name: str
    description: str
    arguments: type[BaseModel]
    read_only: bool = False


TOOLS: Final = (
    ToolSpec(
        "read_file",
        "Read a text file, or a part of it by lines. What is not shown is named beside the text, never in it.",
        ReadFileInput,
        read_only=True,
    ),
    ToolSpec(
        "view",
        "Show a text file with line numbers, or list a directory.",
        ViewInput,
        read_only=True,
    ),
    ToolSpec(
        "write_file",
        "Create a file or replace its whole content. Prefer str_replace or apply_patch to change a part of a file.",
        WriteFileInput,
    ),
    ToolSpec(
        "str_replace",
        "Replace a text that occurs exactly once in a file. Line numbers are not part of the text. "
        "Everything else in the file stays as it is, byte for byte.",
        StrReplaceInput,
    ),
    ToolSpec("insert", "Insert whole lines after a given line of a file.", InsertInput),
    ToolSpec(
        "apply_patch",
        "Change several files at once, all or none. In '*** Update File: path' every hunk starts "
        "with '@@' (or '@@ ' and the text of the line that opens the function or class) and has "
        "lines with ' ' for context, '-' for removed and '+' for added. Other operations are "
        "'*** Add File: path' with '+' lines, '*** Delete File: path', and '*** Move to: path' "
        "below an update.",
        ApplyPatchInput,
    ),
)


def tool_schemas(style: Style) -> list[Schema]:
    """Return the definitions of all tools, as an API of the given style takes them.

    Args:
        style: ``openai`` (function tools), ``anthropic`` (``input_schema``) or ``mcp``
            (``inputSchema``, ``outputSchema`` and annotations).

    Raises:
        ValueError: The style is unknown.
    """
    if style not in {"openai", "anthropic", "mcp"}:
        raise ValueError(f"style must be openai, anthropic or mcp, not {style!r}")
    return [_definition(tool, style) for tool in TOOLS]


def _definition(tool: ToolSpec, style: Style) -> Schema:
    head: Schema = {"name": tool.name, "description": tool.description}
    arguments = _arguments(tool.arguments)
    if style == "openai":
        return {"type": "function", "function": {**head, "parameters": arguments}}
    if style == "anthropic":
        return {**head, "input_schema": arguments}
    definition = {**head, "inputSchema": arguments, "annotations": _annotations(tool)}
    if not tool.read_only:
        definition["outputSchema"] = EditOutcome.model_json_schema(mode="serialization")
    return definition


def _annotations(tool: ToolSpec) -> Schema:
    return {
        "readOnlyHint": tool.read_only,
        "destructiveHint": not tool.read_only,
        "openWorldHint": False,
    }


def _arguments(model: type[BaseModel]) -> Schema:
    """Return a flat schema without titles; aliases are accepted but not advertised."""
    schema = model.model_json_schema(by_alias=False)
    schema.pop("title", None)
    schema.pop("description", None)
    for field in schema["properties"].values():
        field.pop("title", None)
    return schema
