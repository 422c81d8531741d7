"""Habits that keep the code readable, checked from the syntax tree."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path for part in ("hermes_env", "backends", "conformance") for path in (ROOT / part).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def code_lines(function: Function) -> int:
    """Lines of a function without its docstring, which is prose."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    prose = (docstring.end_lineno or 0) - docstring.lineno + 1 if docstring is not None else 0
    return (function.end_lineno or 0) - function.lineno + 1 - prose


def test_modules_are_short() -> None:
    """No module is over 400 lines, and half of those that ship are under 200."""
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (*SHIPPED, *TESTS)}
    assert not {str(path): size for path, size in sizes.items() if size > 400}
    assert statistics.median(sizes[path] for path in SHIPPED) <= 200


def test_functions_are_short() -> None:
    """No function that ships is over 60 lines, and half of them are at most 10."""
    sizes = {f"{path}:{found.name}": code_lines(found) for path in SHIPPED for found in functions(path)}
    assert not {name: size for name, size in sizes.items() if size > 60}
    assert statistics.median(sizes.values()) <= 10


def test_booleans_are_passed_by_name() -> None:
    """No public function that ships takes a positional argument that is a bool by its annotation or default."""
    found = []
    for path in SHIPPED:
        for function in functions(path):
            arguments = [*function.args.posonlyargs, *function.args.args]
            if function.name.startswith("_") or path.parent.name == "_cli":
                continue
            if "adapters" in path.parts:  # The signatures there are the runtimes'.
                continue
            if any(isinstance(arg.annotation, ast.Name) and arg.annotation.id == "bool" for arg in arguments):
                found.append(f"{path}:{function.name}")
    assert not found


def test_every_test_states_its_law() -> None:
    """Each test function has a docstring, a sentence that ends with a full stop."""
    wanting = [
        f"{path}:{found.name}"
        for path in TESTS
        for found in functions(path)
        if found.name.startswith("test_") and not re.search(r"\.(\n|$)", ast.get_docstring(found) or "")
    ]
    assert not wanting


def test_nothing_is_left_to_do() -> None:
    """No marker for unfinished work is left in code, scripts or documents."""
    words = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    marker = re.compile(rf"\b({'|'.join(words)})\b")
    files = [*SHIPPED, *TESTS, *(ROOT / "scripts").iterdir(), *ROOT.glob("*.md"), ROOT / "Makefile"]
    assert not [str(path) for path in files if path.is_file() and marker.search(path.read_text(encoding="utf-8"))]
