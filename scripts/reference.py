"""Writes the generated parts of the documents: what the code says about itself, between two comments.

python scripts/reference.py           writes them
python scripts/reference.py --check   names the documents that are not fresh, and ends with 1
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hermes_env
from hermes_env import BackendInfo, BaseEnvironment, Capabilities, ExecResult, StdinMode, list_backends
from hermes_env_conformance import CHAPTERS, LAWS
from hermes_env_conformance._cells import EVENTS, STATES, matrix

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.backends.bare import FRAMED_NEEDS, OPERATIONS, REFUSED, STAGED_NEEDS  # noqa: E402 - found by the line above

PART = re.compile(r"<!-- begin ([\w./-]+) -->\n.*?<!-- end -->", re.DOTALL)

KEEPS_AND_COSTS = {
    "local": (
        "your files stay",
        "nothing",
        "this machine (Linux, dash, GNU coreutils)",
    ),
    "docker": (
        "until it is closed; an attached container stays",
        "memory and disk of the engine's machine",
        "a real Docker Engine, an image of busybox alone",
    ),
    "ssh": (
        "the host's files stay",
        "nothing beyond the host",
        "real OpenSSH servers and dropbear, login shells from bash to tcsh",
    ),
    "daytona": (
        "until it is closed; detached, until its lifetime ends",
        "per second of a running sandbox, set by its provider",
        "the unmodified SDK on an emulator; the hosted service not yet",
    ),
    "modal": (
        "until it is closed; detached, until its lifetime ends",
        "per second of a running sandbox, set by its provider",
        "the unmodified SDK on an emulator; the hosted service not yet",
    ),
    "vercel": (
        "until it is closed; detached, until its time limit ends",
        "per second of a running sandbox, set by its provider",
        "the unmodified SDK on an emulator; the hosted service not yet",
    ),
}
"""What no class can tell: what is kept after the end, what costs money, and what the proof ran against."""


def backends() -> str:
    """One row for each built-in backend."""
    rows = [
        (
            f"`{info.name}`",
            f"`{info.stdin_mode.value}`",
            info.capabilities.isolation,
            info.capabilities.kill_scope,
            *KEEPS_AND_COSTS[info.name],
        )
        for info in _built_in()
        if info.capabilities is not None and info.stdin_mode is not None
    ]
    return _table(("backend", "stdin mode", "isolation", "a kill ends", "keeps", "costs", "proven against"), rows)


def powers() -> str:
    """Capabilities of each built-in backend."""
    found = [info for info in _built_in() if info.capabilities is not None]
    rows = [
        (f"`{field.name}`", *(_word(getattr(info.capabilities, field.name)) for info in found))
        for field in dataclasses.fields(Capabilities)
    ]
    return _table(("capability", *(f"`{info.name}`" for info in found)), rows)


def _built_in() -> list[BackendInfo]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = list(project["project"]["entry-points"]["hermes_env.backends"])
    installed = {info.name: info for info in list_backends()}
    return [installed[name] for name in names]


def _word(value: object) -> str:
    return {True: "yes", False: "no", None: "none known"}.get(value, str(value))  # type: ignore[call-overload, no-any-return]


def capabilities() -> str:
    """Every capability with what it means."""
    rows = [
        (f"`{name}`", _word(getattr(Capabilities(), name)), text)
        for name, text in _attribute_docs(Capabilities).items()
    ]
    return _table(("capability", "default", "meaning"), rows)


def stdin_modes() -> str:
    """Every stdin mode with what it means."""
    rows = [(f"`{StdinMode[name].value}`", text) for name, text in _attribute_docs(StdinMode).items()]
    return _table(("mode", "meaning"), rows)


def results() -> str:
    """Fields and properties of a result."""
    fields = _attribute_docs(ExecResult)
    fields.update(_properties(ExecResult))
    return _table(("name", "meaning"), [(f"`{name}`", text) for name, text in fields.items()])


def errors() -> str:
    """The error tree as its module draws it, and what each means."""
    drawing = inspect.getdoc(sys.modules[hermes_env.HermesEnvError.__module__]) or ""
    tree = drawing.partition("::\n\n")[2].partition("\n\n")[0]
    return f"```text\n{inspect.cleandoc(tree)}\n```"


def contract() -> str:
    """What users call, then what an author writes."""
    names = [*("open_environment", "attach", "list_backends", "reap")]
    rows = [(f"`{name}{_signature(getattr(hermes_env, name))}`", _first(getattr(hermes_env, name))) for name in names]
    for owner, prefix in ((BaseEnvironment, "env"), (hermes_env.Process, "process"), (hermes_env.Files, "env.files")):
        rows += [(f"`{prefix}.{name}{shown}`", text) for name, shown, text in _members(owner)]
    return _table(("call", "what it does"), rows)


def hooks() -> str:
    """Declarations and hooks of a backend."""
    owners = [BaseEnvironment.__mro__[1], hermes_env.CommandEnvironment, hermes_env.StagedEnvironment]
    rows = []
    for owner in owners:
        for name, value in vars(owner).items():
            function = inspect.unwrap(getattr(value, "__func__", value))
            own = name in {"_argv", "_environ", "_run", "_stage", "_stage_sized", "_stage_many", "_fetch", "_unstage"}
            if inspect.isfunction(function) and (own or (owner is owners[0] and not name.startswith(_FRAMEWORK))):
                rows.append((f"`{name}`", f"`{owner.__name__}`", _first(function)))
    return _table(("hook", "of", "what it does"), rows)


_FRAMEWORK = ("_before_", "_after_", "_downloads", "__")


def laws() -> str:
    """Every law of the suite."""
    text = []
    for chapter in CHAPTERS:
        found = [law for law in LAWS.values() if law.chapter == chapter]
        rows = [(f"`{law.name}`", law.statement, ", ".join(f"`{need}`" for need in law.needs)) for law in found]
        text.append(f"### {chapter}: {len(rows)} laws\n\n{_table(('law', 'what holds', 'where'), rows)}")
    return "\n\n".join(text)


CANCELLATION = ROOT / "tests/integration/staged/test_cancellation.py"
ENDINGS = re.compile(r"kill|timeout|terminate|wait_that|background|runs_once")


def states_and_events() -> str:
    """For every state of a command and everything that may happen to it: how many laws, or why it cannot be."""
    return _table(("state", *EVENTS), matrix())


def cancellation() -> str:
    """What the laws prove for a command in each state, for each thing that can happen to it."""
    found = [(law, place) for law in LAWS.values() for place in law.covers]
    found.sort(key=lambda pair: (STATES.index(pair[1].partition(": ")[0]), pair[1].partition(": ")[2]))
    return _table(
        ("state", "what happens", "what holds"),
        [(f"`{state}`", event, law.statement) for law, place in found for state, _, event in [place.partition(": ")]],
    )


def endings() -> str:
    """More laws about how commands end: those of the suite, and those that need faults in an SDK of ours."""
    rows = [
        (law.statement, "every backend")
        for law in LAWS.values()
        if ENDINGS.search(law.name) and law.chapter in ("stdin", "output", "process")
    ]
    tree = ast.parse(CANCELLATION.read_text(encoding="utf-8"))
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    rows += [(" ".join((ast.get_docstring(test) or "").split()), "staged, with faults") for test in tests]
    return _table(("what holds", "proven on"), rows)


def shells() -> str:
    """What works where a tool is missing, as `tests/integration/shells/test_missing.py` proves it."""
    rows = [
        (f"`{tool}`", ", ".join(OPERATIONS[name] for name in refused)) for tool, refused in REFUSED.items() if refused
    ]
    free = ", ".join(f"`{tool}`" for tool, refused in REFUSED.items() if not refused)
    text = [f"Without one of {free}: everything works.", _table(("without", "is refused, naming the tool"), rows)]
    staged = ", ".join(f"`{tool}`" for tool in STAGED_NEEDS)
    text += [
        f"An environment that stages files, or has only command text, is refused when it is opened without {staged}."
    ]
    framed = [(f"`{tool}`", f"stdin whose length is {length}") for tool, length in FRAMED_NEEDS.items()]
    text += ["Where a transport cannot half-close (a capability), stdin has to be framed:"]
    return "\n\n".join([*text, _table(("without", "is refused, naming the tool"), framed)])


def included(path: str) -> str:
    """A file of this repository as a code block."""
    language = {".py": "python", ".toml": "toml"}[Path(path).suffix]
    return f"```{language}\n{(ROOT / path).read_text(encoding='utf-8').rstrip()}\n```"


def _members(owner: type) -> Iterator[tuple[str, str, str]]:
    for name, value in vars(owner).items():
        if name.startswith(("_", "run_")) or name in ("open", "join"):  # what the framework itself calls
            continue
        if inspect.isfunction(value):
            yield name, _signature(value), _first(value)
        elif isinstance(value, property):
            yield name, "", _first(value)


def _signature(function: object) -> str:
    """Names of the parameters, without types: the reference shows what there is, editors show the rest."""
    shown, keyword = [], False
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            keyword = True
            shown.append("*")
        shown.append(_STARS.get(parameter.kind, "") + parameter.name)
    return f"({', '.join(shown)})"


_STARS: dict[object, str] = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}


def _first(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _attribute_docs(owner: type) -> dict[str, str]:
    """Strings that stand below the attributes of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)
    found, name = {}, ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name = ast.unparse(target)
            found[name] = ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(str(node.value.value).split())
    silent = [name for name, text in found.items() if not text]
    assert not silent, f"{owner.__name__} says nothing about {silent}"
    return found


def _properties(owner: type) -> dict[str, str]:
    return {name: _first(value) for name, value in vars(owner).items() if isinstance(value, property)}


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (
        backends,
        powers,
        capabilities,
        stdin_modes,
        results,
        errors,
        contract,
        hooks,
        laws,
        states_and_events,
        cancellation,
        endings,
        shells,
    )
}


def fresh(text: str) -> str:
    """A document with its generated parts as the code has them now."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        body = PARTS[name]() if name in PARTS else included(name)
        return f"<!-- begin {name} -->\n{body}\n<!-- end -->"

    return PART.sub(part, text)


def stale() -> list[Path]:
    """Documents whose generated parts are not what the code says."""
    return [path for path in documents() if fresh(path.read_text(encoding="utf-8")) != path.read_text(encoding="utf-8")]


def documents() -> list[Path]:
    """All documents: at the top, and the pages of the site."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def main() -> int:
    """Write what is stale, or name it."""
    found = stale()
    for path in found:
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if "--check" not in sys.argv:
            path.write_text(fresh(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 1 if found and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
