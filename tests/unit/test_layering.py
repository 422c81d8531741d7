"""The direction of dependency, read from the imports: who may know whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"hermes_env": ROOT, **{path.name: path.parent for path in (ROOT / "backends").glob("hermes_env_*")}}
FOLDERS["hermes_env_conformance"] = ROOT / "conformance"
OURS = frozenset(FOLDERS)
BACKENDS = sorted(OURS - {"hermes_env", "hermes_env_conformance"})

PURE = [
    "_capabilities", "_codec", "_command", "_errors", "_heredoc_script", "_kill_script", "_launch", "_marks", "_result",
    "_session_script", "_shell", "_staged_command", "_staged_reply", "_staged_script", "_validate",
    "files._digest", "files._frames", "files._script_apply", "files._script_common", "files._script_read",
    "files._script_survey", "files._script_tree", "files._script_write", "files._stats", "files._types", "files._wire",
    "tools._anchor", "tools._diff", "tools._display", "tools._find", "tools._hunks", "tools._locate",
    "tools._locate_codex", "tools._look", "tools._match", "tools._near", "tools._plan", "tools._policy",
    "tools._problem", "tools._replace", "tools._rules", "tools._splice", "tools._text", "tools._v4a_body",
    "tools._v4a_extract", "tools._v4a_markers", "tools._v4a_model", "tools._v4a_parser", "tools._view",
]  # fmt: skip
"""Logic alone: it can be tested, and trusted, without a system under it."""
IMPURE_LIBRARY = frozenset(
    {"asyncio", "concurrent", "fcntl", "io", "logging", "multiprocessing", "os", "pathlib", "select", "shutil",
     "signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time"}
)  # fmt: skip
"""Modules by which code touches files, processes, threads, clocks or the network."""


def modules(package: str) -> list[Path]:
    """Source files of one of our packages."""
    return sorted((FOLDERS[package] / package).rglob("*.py"))


def name_of(path: Path, package: str) -> str:
    """Dotted name of a module."""
    parts = path.relative_to(FOLDERS[package]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, package: str) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Every import in a module: dotted origin, names taken from it, and whether only a type checker sees it."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    typing_only = {id(inner) for node in ast.walk(tree) if _is_type_checking(node) for inner in ast.walk(node)}
    here = name_of(path, package).split(".")
    folder = here if path.name == "__init__.py" else here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, (), id(node) in typing_only
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin, tuple(alias.name for alias in node.names), id(node) in typing_only


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def top(name: str) -> str:
    """The distribution-level name of an import."""
    return name.partition(".")[0]


@pytest.mark.parametrize("package", sorted(OURS))
def test_nothing_that_ships_imports_tests(package: str) -> None:
    """What is installed does not know the tests."""
    for path in modules(package):
        assert "tests" not in {top(origin) for origin, _, _ in imports(path, package)}, path


def test_the_core_knows_no_backend_and_no_suite() -> None:
    """The core imports nothing of backends and conformance; only the command line calls the suite, by public names."""
    for path in modules("hermes_env"):
        for origin, names, _ in imports(path, "hermes_env"):
            if path == FOLDERS["hermes_env"] / "hermes_env" / "_cli" / "_app.py" and origin == "hermes_env_conformance":
                assert set(names) <= {"run", "explain_law"}
                continue
            assert top(origin) not in OURS - {"hermes_env"}, f"{path} imports {origin}"


@pytest.mark.parametrize("package", [*BACKENDS, "hermes_env_conformance"])
def test_the_others_use_public_names_of_the_core_only(package: str) -> None:
    """A backend and the suite import `hermes_env` and its public submodules, themselves, and no sibling."""
    for path in modules(package):
        for origin, names, _ in imports(path, package):
            if top(origin) not in OURS or top(origin) == package:
                continue
            assert top(origin) == "hermes_env", f"{path} imports {origin}"
            private = [part for part in (*origin.split("."), *names) if part.startswith("_")]
            assert not private, f"{path} imports {origin}: {private}"


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_touch_nothing(module: str) -> None:
    """Modules of pure logic import neither what does I/O nor a module of ours that does."""
    unread, read = {f"hermes_env.{module}"}, set[str]()
    while unread:
        name = unread.pop()
        read.add(name)
        path = ROOT / Path(*name.split(".")).with_suffix(".py")
        for origin, names, typing_only in imports(path, "hermes_env"):
            if typing_only:
                continue
            assert top(origin) not in IMPURE_LIBRARY, f"{path} imports {origin}"
            inner = {origin, *(f"{origin}.{taken}" for taken in names)}
            unread |= {one for one in inner if (ROOT / Path(*one.split(".")).with_suffix(".py")).is_file()} - read


def test_tools_use_public_methods_of_an_environment_only() -> None:
    """`hermes_env.tools` imports the core's public names, its codec and itself."""
    folder = ROOT / "hermes_env" / "tools"
    allowed = ("hermes_env", "hermes_env.files", "hermes_env._codec", "hermes_env._errors")
    for path in sorted(folder.rglob("*.py")):
        for origin, _, typing_only in imports(path, "hermes_env"):
            if top(origin) != "hermes_env" or origin.startswith("hermes_env.tools"):
                continue
            assert typing_only or origin in allowed, f"{path} imports {origin}"


ADAPTERS = ROOT / "hermes_env" / "adapters"


@pytest.mark.parametrize("path", sorted(ADAPTERS.rglob("*.py")), ids=lambda path: str(path.relative_to(ADAPTERS)))
def test_an_adapter_is_thin_and_uses_public_names(path: Path) -> None:
    """An adapter to an agent runtime has at most 200 lines; it imports public names, and no other adapter."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200
    own = ".".join(["hermes_env", "adapters", path.relative_to(ADAPTERS).parts[0].removesuffix(".py")])
    for origin, names, _ in imports(path, "hermes_env"):
        if top(origin) != "hermes_env" or origin == own or origin.startswith(f"{own}."):
            continue
        assert not [part for part in (*origin.split("."), *names) if part.startswith("_")], f"{path} imports {origin}"
        assert not origin.startswith("hermes_env.adapters."), f"{path} imports {origin}"


def test_nothing_imports_an_adapter() -> None:
    """Agent runtimes, or their users, ask for adapters; nothing else does, but the command line that serves one."""
    serving = ROOT / "hermes_env" / "_cli" / "_mcp.py"
    for package in sorted(OURS):
        for path in modules(package):
            if ADAPTERS not in path.parents and path != serving:
                assert not any(origin.startswith("hermes_env.adapters") for origin, _, _ in imports(path, package)), (
                    path
                )


@pytest.mark.parametrize(
    ("missing", "module", "extra"),
    [
        ("deepagents", "hermes_env.adapters.deepagents", "deepagents"),
        ("hypothesis", "hermes_env_conformance", "conformance"),
    ],
)
def test_what_is_missing_is_told_with_what_installs_it(missing: str, module: str, extra: str) -> None:
    """The error of an adapter whose runtime is not installed names the extra, and so does the suite's."""
    code = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode and f"pip install 'hermes-env[{extra}]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("package", BACKENDS)
def test_sdks_are_imported_when_they_are_used(package: str) -> None:
    """Importing a backend imports no SDK and no pydantic: listing backends stays cheap."""
    heavy = {"docker", "requests", "paramiko", "asyncssh", "modal", "daytona", "vercel", "httpx2", "pydantic"}
    assert not heavy & loaded_by(f"import {package}")


def test_import_costs_next_to_nothing() -> None:
    """`import hermes_env` loads no pydantic, asyncio, importlib.metadata, CLI or backend; `BaseEnvironment` neither."""
    unwanted = {"pydantic", "asyncio", "importlib.metadata", "typer", "rich", "hypothesis", "pytest", *BACKENDS}
    assert not unwanted & loaded_by("import hermes_env")
    assert not unwanted & loaded_by("from hermes_env import BaseEnvironment, CommandEnvironment, ExecResult")


def test_the_command_line_imports_what_a_command_needs() -> None:
    """Starting it, which everybody waits for, loads neither the file tools nor asyncio, the suite or an SDK."""
    unwanted = {"hermes_env.tools", "hermes_env.files", "asyncio", "pydantic", "hermes_env_conformance", *BACKENDS}
    assert not unwanted & loaded_by("import hermes_env._cli._app")


def loaded_by(statement: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd="/")
    return set(done.stdout.split())
