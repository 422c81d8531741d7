"""Published schemas: valid, complete, and imported only when they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_env.tools import (
    ERROR_CODES,
    EditOutcome,
    Missing,
    Problem,
    Snapshot,
    State,
    make_plan,
    parse_patch,
    paths_of,
    tool_schemas,
)
from hermes_env.tools._problem import Candidate
from hermes_env.tools._schemas import ApplyPatchInput, InsertInput, StrReplaceInput, WriteFileInput

_PATCH = """*** Begin Patch
*** Update File: caf\udce9
@@
-a\udce9
+b
*** Add File: new
+x
*** End Patch
"""


def test_importing_the_tools_does_not_import_pydantic() -> None:
    """The pure tools load without pydantic and asyncio."""
    code = "import sys, hermes_env.tools; print({'pydantic', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_outcome_is_json_with_clean_text() -> None:
    """Paths and lines with foreign bytes make valid JSON that reads back to the same outcome."""
    patch = parse_patch(_PATCH)
    files: dict[str, State] = {"caf\udce9": Snapshot.of(b"a\xe9\n", mode=0o644), "new": Missing()}
    outcome = EditOutcome.planned(make_plan(patch, {p: files[p] for p in paths_of(patch)}))
    text = outcome.model_dump_json()
    text.encode("utf-8")
    assert EditOutcome.model_validate_json(text) == outcome
    changed = outcome.changed_files[0]
    assert (changed.path, changed.mode, changed.operation) == (r"caf\xe9", "0644", "update")
    assert (changed.hunks[0].tier, changed.hunks[0].old_start) == ("exact", 1)
    assert outcome.bytes_changed == 4


def test_a_refusal_carries_every_problem() -> None:
    """Code, place and candidates of each problem are in the outcome, the first one as its error."""
    problems = [
        Problem("stale", "changed", "f\udce9", 3, 1, (Candidate(7, "x\udcff"),)),
        Problem("not_found", "gone", "g"),
    ]
    outcome = EditOutcome.refused(problems)
    assert (outcome.ok, outcome.status, outcome.stale_check) == (False, "refused", "failed")
    assert outcome.error == outcome.errors[0]
    assert outcome.errors[0].candidates[0].text == r"x\xff"
    assert json.loads(outcome.model_dump_json())["errors"][1]["code"] == "not_found"


def test_the_schema_has_exactly_the_error_codes() -> None:
    """The closed set of codes is in the published schema."""
    schema = EditOutcome.model_json_schema(mode="serialization")
    assert set(schema["$defs"]["ErrorInfo"]["properties"]["code"]["enum"]) == set(ERROR_CODES)


@pytest.mark.parametrize("style", ["openai", "anthropic", "mcp"])
def test_three_styles_of_one_model(style: str) -> None:
    """Each style names the same tools with the same flat argument schema."""
    names = ["read_file", "view", "write_file", "str_replace", "insert", "apply_patch"]
    for name, tool in zip(names, tool_schemas(style), strict=True):  # type: ignore[arg-type] # one of its values
        head = tool["function"] if style == "openai" else tool
        arguments = head[{"openai": "parameters", "anthropic": "input_schema", "mcp": "inputSchema"}[style]]
        assert head["name"] == name
        assert arguments["type"] == "object"
        assert arguments["additionalProperties"] is False
        assert "$defs" not in arguments
        assert arguments["required"]
    json.dumps(tool_schemas(style))  # type: ignore[arg-type] # as above


def test_unknown_style_is_refused() -> None:
    """A style that does not exist is an error that names the three."""
    with pytest.raises(ValueError, match="openai, anthropic or mcp"):
        tool_schemas("soap")  # type: ignore[arg-type] # that is the point


def test_both_spellings_are_accepted() -> None:
    """The parameter names of the Anthropic editor and of Claude Code mean the same."""
    a = StrReplaceInput.model_validate({"path": "f", "old_str": "a", "new_str": "b"})
    b = StrReplaceInput.model_validate({"file_path": "f", "old_string": "a", "new_string": "b"})
    assert a == b
    assert InsertInput.model_validate({"path": "f", "insert_line": 0, "new_str": "x"}).insert_text == "x"
    assert WriteFileInput.model_validate({"path": "f", "file_text": "x"}).content == "x"
    assert ApplyPatchInput.model_validate({"input": "x"}).patch == "x"


def test_the_published_schema_is_fresh() -> None:
    """The schema of an outcome that stands beside the documents is the one that the code has."""
    path = Path(__file__).parents[3] / "docs" / "edit-outcome.schema.json"
    assert json.loads(path.read_text("utf-8")) == EditOutcome.model_json_schema(mode="serialization")
