"""A tool call as a model makes it: a name and arguments as JSON, checked by the published models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from hermes_env.tools._model import EditOutcome
from hermes_env.tools._problem import Problem
from hermes_env.tools._read import ReadOutcome
from hermes_env.tools._schemas import TOOLS

if TYPE_CHECKING:
    from hermes_env.tools._filetools import FileTools

_MODELS: Final = {tool.name: tool.arguments for tool in TOOLS}
_OTHER_NAMES: Final = {
    "Read": "read_file",
    "Write": "write_file",
    "Edit": "str_replace",
    "create": "write_file",
}
"""Names by which Claude Code and the Anthropic text editor call the same tools."""
_EDITORS: Final = frozenset({"str_replace_editor", "str_replace_based_edit_tool"})
_READING: Final = frozenset({"read_file", "view"})


def call(tools: FileTools, name: str, arguments: Mapping[str, Any]) -> EditOutcome | ReadOutcome:
    """Call a tool by name.

    Args:
        tools: What carries it out.
        name: A name of `tool_schemas`, a name that Claude Code uses, or the Anthropic text editor tool with its
            ``command`` among the arguments.
        arguments: As the model gave them; other spellings (``old_str``, ``file_path``, …) are accepted.

    Returns:
        The outcome; arguments that do not fit are ``invalid_argument``.
    """
    try:
        given = dict(arguments)
    except (TypeError, ValueError):
        problem = Problem("invalid_argument", f"the arguments must be an object, not {type(arguments).__name__}")
        return _refused(str(name), {}, problem)
    name = str(name)
    if name in _EDITORS:
        name = str(given.pop("command", ""))
    tool = _OTHER_NAMES.get(name, name)
    model = _MODELS.get(tool)
    if model is None:
        known = ", ".join(sorted(_MODELS))
        return EditOutcome.refused([Problem("invalid_argument", f"there is no tool {name!r}; there are {known}")])
    try:
        checked = model.model_validate(given)
    except ValidationError as error:
        return _refused(tool, given, Problem("invalid_argument", _sentence(error)))
    outcome: EditOutcome | ReadOutcome = getattr(tools, tool)(**_fields(checked))
    return outcome


def _fields(checked: BaseModel) -> dict[str, Any]:
    """Fields by their own names; no defaults, so that those of the methods hold."""
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _refused(tool: str, given: Mapping[str, Any], problem: Problem) -> EditOutcome | ReadOutcome:
    path = str(given.get("path") or given.get("file_path") or "")
    if _OTHER_NAMES.get(tool, tool) in _READING:
        return ReadOutcome.refused(path, problem)
    return EditOutcome.refused([problem.at(path=path or None)])


def _sentence(error: ValidationError) -> str:
    """What is wrong, without the values, which may be long."""
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors())
