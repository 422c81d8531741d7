"""Edits against a plain read plus write of the same files, and round trips: a table, and JSON for the record.

python -m tests.benchmarks.bench_tools [--json FILE]
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes_env import BaseEnvironment, open_environment
from hermes_env.tools import FilePolicy, FileTools
from tests.benchmarks.bench_files import Scripted
from tests.benchmarks.harness import Row, compare, measured, report

_LINES = 1 << 20
"""Of 100 bytes each: 100 MiB."""


@contextmanager
def places() -> Iterator[tuple[Path, list[tuple[str, BaseEnvironment]]]]:
    """A directory with a large file and many small ones, natively and through scripts."""
    home = Path(tempfile.mkdtemp(prefix="hermes-bench-"))
    work = home / "work"
    work.mkdir()
    with (work / "big").open("wb") as file:
        file.writelines(b"%099d\n" % number for number in range(_LINES))
    for number in range(20):
        (work / f"f{number}").write_bytes(b"a\n" * 100 + b"b\n")
    native, scripted = open_environment("local", cwd=str(work)), Scripted(cwd=str(work)).open()
    try:
        yield home, [("native", native), ("scripts", scripted)]
    finally:
        native.close()
        scripted.close()
        shutil.rmtree(home)


def large(env: BaseEnvironment, tools: FileTools, lines: Iterator[int], name: str) -> Row:
    """One line of 100 MiB."""

    def edit() -> None:
        number = next(lines)
        assert tools.str_replace("big", f"{number:099d}", f"{number:099d}.").ok

    def plain() -> None:
        env.files.write_bytes("big", env.files.read_bytes("big"))

    return compare(f"{name}: one line of 100 MiB", edit, plain, rounds=5, budget=3.0, against="read plus write")


def twenty(env: BaseEnvironment, tools: FileTools, name: str) -> Row:
    """Twenty files in one patch."""
    texts = itertools.cycle(["b", "c"])
    now = [next(texts)]

    def edit() -> None:
        old, new = now[0], next(texts)
        now[0] = new
        body = "".join(f"*** Update File: f{n}\n@@\n-{old}\n+{new}\n" for n in range(20))
        assert tools.apply_patch(f"*** Begin Patch\n{body}*** End Patch\n").ok

    def plain() -> None:
        for number in range(20):
            env.files.write_bytes(f"f{number}", env.files.read_bytes(f"f{number}"))

    return compare(f"{name}: twenty files", edit, plain, rounds=7, budget=3.0, against="twenty reads and writes")


def round_trips(env: BaseEnvironment, act: Callable[[], object]) -> int:
    """Scripts that an act runs."""
    count = 0
    run = env.run_script

    def counting(*args: object, **settings: object) -> object:
        nonlocal count
        count += 1
        return run(*args, **settings)  # type: ignore[arg-type] # passed on as they came

    env.run_script = counting  # type: ignore[method-assign,assignment] # for the time of the act
    try:
        act()
    finally:
        del env.run_script
    return count


def main(argv: list[str]) -> int:
    """Measure and print."""
    rows: list[Row] = []
    lines = iter(range(1000, _LINES))
    with places() as (home, environments):
        for name, env in environments:
            policy = FilePolicy(workspace=str(home / "work"), confirm_files=None)
            tools = FileTools(env, policy, store_dir=str(home / name), state_dir=str(home / "state"))
            rows += [large(env, tools, lines, name), twenty(env, tools, name)]
        add = "".join(f"*** Add File: n{n}\n+x\n" for n in range(20))
        patch = f"*** Begin Patch\n{add}*** End Patch\n"
        trips = round_trips(env, lambda: tools.apply_patch(patch))
        rows.append(measured("scripts: round trips for twenty files", trips, "", 4))
        trips = round_trips(env, lambda: tools.str_replace("n0", "x", "y"))
        rows.append(measured("scripts: round trips for one file", trips, "", 2))
    return report("edits", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
