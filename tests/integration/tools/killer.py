"""Kills a client at its first step, its second, and so on, and lets the next client recover.

    python -m tests.integration.tools.killer KIND HOME OPTIONS WHAT

prints one JSON line per step: the trees after the kill and after the recovery, by programs of this machine. WHAT is
``patch``, or ``linked`` or ``mounted`` for an edit of one file that is written in place.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hermes_env.files import _native_write
from hermes_env.files._native_io import write_all
from hermes_env.tools import EditOutcome, FileTools

from .bench import Bench, is_commit, make_bench, open_kind, tree, with_functions

FILES: dict[str, tuple[bytes, int]] = {
    "a": (b"one\r\ntwo\xff\r\n", 0o640),
    "b": (b"x\n", 0o644),
    "d": (b"deleted", 0o600),
    "m": (b"moved\n", 0o755),
    "sub/c": (b"c\n", 0o644),
    "stays": (b"stays", 0o644),
}
PATCH = """*** Begin Patch
*** Update File: a
@@
-one
+uno
*** Add File: deep/er/new
+new
*** Update File: b
@@
-x
+y
*** Delete File: d
*** Update File: m
*** Move to: to/m
*** Update File: sub/c
@@
-c
+cc
*** End Patch
"""


BIG = b"old\n" + b"x" * (5 << 19)
"""A file that takes three pieces to write."""


def fill(root: Path) -> None:
    """The old tree; files with two names are among it."""
    for name, (data, mode) in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
    os.link(root / "sub/c", root / "sub/second")


_SHIM = """
steps=$(command cat {count} 2>/dev/null || echo 0)
step() {{
  steps=$((steps+1)); echo "$steps" >{count}
  [ "$steps" -ne {kill} ] || {{ : >{marker}; kill -9 $$; }}
}}
mv() {{ step; command mv "$@"; }}
ln() {{ step; command ln "$@"; }}
rm() {{ step; command rm "$@"; }}
chmod() {{ step; command chmod "$@"; }}
mkdir() {{ step; command mkdir "$@"; }}
"""
_CAT = """
cat() {{ step; command cat "$@"; }}
"""
_EVENTS = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"})


def start(home: Path, what: str) -> None:
    """Put the files there as they are before the edit."""
    for name in ("state", "store"):
        shutil.rmtree(home / name, ignore_errors=True)
    if what == "mounted":
        (home / "source").write_bytes(BIG)
        return
    shutil.rmtree(home / "work", ignore_errors=True)
    (home / "work").mkdir()
    if what == "patch":
        fill(home / "work")
    else:
        (home / "work" / "f").write_bytes(BIG)
        os.link(home / "work" / "f", home / "work" / "g")


def change(tools: FileTools, what: str) -> EditOutcome:
    """The edit itself."""
    return tools.apply_patch(PATCH) if what == "patch" else tools.str_replace("f", "old", "new text")


def edit(bench: Bench, step: int, what: str) -> None:
    """Run the edit and die at a step."""
    if bench.kind == "native":
        _die_at_event(step, str(bench.home / "work"), str(bench.home / "state"))
    else:
        count, marker = bench.home / "count", bench.home / "marker"
        shim = (_SHIM + ("" if what == "patch" else _CAT)).format(count=count, marker=marker, kill=step)
        bench.fault = lambda script: with_functions(script, shim) if is_commit(script) else script
        _die_with(bench, marker)
    outcome = change(bench.tools(), what)
    assert outcome.ok, outcome.errors


def _die_at_event(step: int, *places: str) -> None:
    seen = 0

    def write(fd: int, data: bytes | memoryview) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), 9)
        write_all(fd, data)

    vars(_native_write)["write_all"] = write

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        wanted = event in _EVENTS or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT)
        if not wanted or not isinstance(args[0], str | bytes):
            return
        if os.fsdecode(args[0]).startswith(places):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), 9)

    sys.addaudithook(hook)


def _die_with(bench: Bench, marker: Path) -> None:
    """The client dies with the script, before it hears of that."""
    run = bench.env.run_script

    def run_script(*args: Any, **settings: Any) -> Any:
        try:
            return run(*args, **settings)
        finally:
            if marker.exists():
                os.kill(os.getpid(), 9)

    bench.env.run_script = run_script  # type: ignore[method-assign]


def _in_child(act: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 1
    try:
        act()
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _edit_once(kind: str, home: Path, options: dict[str, Any], step: int, what: str) -> None:
    with open_kind(kind, home, **options) as env:
        edit(make_bench(kind, home, env), step, what)


def _recover(kind: str, home: Path, options: dict[str, Any]) -> None:
    """What the next client does; what a killed one left running is ended by its watchdog, soon but not at once."""
    deadline = time.monotonic() + 60
    with open_kind(kind, home, **options) as env:
        bench = make_bench(kind, home, env)
        while True:
            recovery = bench.tools().recover()
            (home / "said").write_text(repr(recovery))
            if recovery.clean and not bench.left_over():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(repr(recovery))
            time.sleep(0.1)


def main(kind: str, place: str, options: str, what: str) -> None:
    """Kill at every step until an edit ends by itself."""
    home, settings = Path(place), json.loads(options)
    step, killed = 0, True
    while killed:
        step += 1
        start(home, what)
        status = _in_child(partial(_edit_once, kind, home, settings, step, what))
        killed = os.WIFSIGNALED(status)
        if not killed and os.WEXITSTATUS(status):
            raise SystemExit(f"the edit failed at step {step}")
        for name in ("count", "marker"):
            (home / name).unlink(missing_ok=True)
        after = tree(home / "work")
        failed = _in_child(partial(_recover, kind, home, settings))
        state = home / "state"
        row = {
            "step": step,
            "killed": killed,
            "tree": after,
            "recovered": tree(home / "work"),
            "journals": sorted(os.listdir(state)) if state.exists() else [],
            "left": [str(path) for path in home.rglob(".hermes+*")],
            "said": ("failed: " if failed else "") + (home / "said").read_text(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
