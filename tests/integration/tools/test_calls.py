"""Tools as models call them: names, spellings and arguments of three vendors."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_env.tools import tool_schemas

from .bench import Bench

CALLS: list[tuple[str, dict[str, Any], bytes]] = [
    ("str_replace", {"path": "f", "old_string": "b", "new_string": "x"}, b"a\nx\nc\n"),
    ("str_replace", {"path": "f", "old_str": "b", "new_str": "x"}, b"a\nx\nc\n"),
    ("Edit", {"file_path": "f", "old_string": "b", "new_string": "x", "replace_all": True}, b"a\nx\nc\n"),
    ("str_replace_based_edit_tool", {"command": "str_replace", "path": "f", "old_str": "b"}, b"a\n\nc\n"),
    ("str_replace_editor", {"command": "insert", "path": "f", "insert_line": 1, "new_str": "x"}, b"a\nx\nb\nc\n"),
    ("str_replace_based_edit_tool", {"command": "create", "path": "f", "file_text": "x"}, b"x"),
    ("Write", {"file_path": "f", "content": "x"}, b"x"),
    ("insert", {"path": "f", "insert_line": 0, "insert_text": "x"}, b"x\na\nb\nc\n"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: f\n@@\n-b\n+x\n*** End Patch"}, b"a\nx\nc\n"),
]


@pytest.mark.parametrize(("name", "arguments", "after"), CALLS)
def test_every_spelling_is_understood(near: Bench, name: str, arguments: dict[str, Any], after: bytes) -> None:
    """The documented names of tools and arguments of each vendor do the same edit."""
    near.put("f", b"a\nb\nc\n")
    outcome = near.tools().call(name, arguments)
    assert outcome.ok, outcome
    assert near.cat("f") == after


def test_reads_are_called_too(near: Bench) -> None:
    """Reading by name shows the same as the method."""
    near.put("f", b"a\nb\nc\n")
    tools = near.tools()
    editor = tools.call("str_replace_based_edit_tool", {"command": "view", "path": "f", "view_range": [2, -1]})
    assert editor == tools.view("f", [2, -1])
    assert tools.call("Read", {"file_path": "f", "offset": 2, "limit": 1}) == tools.read_file("f", 2, 1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rm", {}),
        ("str_replace", {"path": "f"}),
        ("str_replace", {"path": "f", "old_string": 1}),
        ("insert", {"path": "f", "insert_line": "x", "insert_text": ""}),
        ("write_file", {"path": "f", "content": "x", "mode": "0777"}),
        ("str_replace_based_edit_tool", {"command": "undo_edit", "path": "f"}),
        ("read_file", {"path": "f", "offset": 0}),
        ("apply_patch", {"patch": ""}),
    ],
)
def test_wrong_arguments_are_outcomes(near: Bench, name: str, arguments: dict[str, Any]) -> None:
    """A call that fits no tool is `invalid_argument`, and nothing is changed."""
    near.put("f", b"a\n")
    before = near.tree()
    outcome = near.tools().call(name, arguments)
    assert outcome.error is not None and outcome.error.code == "invalid_argument"
    assert near.tree() == before


@pytest.mark.parametrize("style", ["openai", "anthropic", "mcp"])
def test_every_published_tool_can_be_called(near: Bench, style: Any) -> None:
    """Each name of the schemas is a tool, and its required arguments are enough."""
    near.put("f", b"a\n")
    samples = {
        "path": "f", "content": "a\n", "old_string": "a", "insert_line": 0, "insert_text": "x",
        "patch": "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\n",
    }  # fmt: skip
    for schema in tool_schemas(style):
        body = schema.get("function", schema)
        wanted = (body.get("parameters") or body.get("input_schema") or body.get("inputSchema"))["required"]
        assert near.tools().call(body["name"], {name: samples[name] for name in wanted}).ok


PATCH = "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\n"
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("call", ("write_file", None), {}),
    ("call", ("write_file", "x"), {}),
    ("call", (["view"], {}), {}),
    ("call", ("Read", 5), {}),
    ("call", ("str_replace_editor", None), {}),
    ("str_replace", ("f", 5, "b"), {}),
    ("str_replace", (None, "a", "b"), {}),
    ("str_replace", ("f", "a", None), {}),
    ("str_replace", ("f", "a", "b"), {"expected_count": "1"}),
    ("str_replace", ("f", "a", "b"), {"dry_run": "no"}),
    ("write_file", ("n", 5), {}),
    ("write_file", (b"n", "x"), {}),
    ("write_file", ("f", "x"), {"if_sha256": 5}),
    ("write_file", ("f", "x"), {"encoding": 5}),
    ("apply_patch", (None,), {}),
    ("apply_patch", (5,), {}),
    ("apply_patch", (b"",), {}),
    ("apply_patch", (PATCH,), {"if_sha256": 5}),
    ("apply_patch", (PATCH,), {"if_sha256": {"new": 5}}),
    ("apply_patch", (PATCH,), {"eol": ["\n"]}),
    ("insert", ("f", "1", "x"), {}),
    ("insert", ("f", True, "x"), {}),
    ("insert", ("f", 1, None), {}),
    ("undo", (5,), {}),
    ("read_file", (None,), {}),
    ("read_file", ("f", 1, "2"), {}),
    ("view", ("f", 5), {}),
    ("view", ("f", ["a", "b"]), {}),
    ("view", ("f", [1]), {}),
]


@pytest.mark.parametrize(("method", "arguments", "named"), WRONG)
def test_a_wrong_type_is_an_outcome(
    near: Bench, method: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """No value of a wrong type raises: it is `invalid_argument`, nothing is changed, and the record can be read."""
    near.put("f", b"a\n")
    before = near.tree()
    tools = near.tools()
    outcome = getattr(tools, method)(*arguments, **named)
    assert outcome.error is not None and outcome.error.code == "invalid_argument", outcome
    assert near.tree() == before
    assert all(entry.status == "refused" for entry in tools.history())


def test_a_missing_argument_is_a_mistake_of_the_program(near: Bench) -> None:
    """Without a required argument there is no call that could have an outcome."""
    with pytest.raises(TypeError, match="path"):
        near.tools().read_file()  # type: ignore[call-arg]  # what is tested
