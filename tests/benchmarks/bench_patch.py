"""Times the pure part of patches and replacements; prints a table and JSON.

Run: ``python tests/benchmarks/bench_patch.py [--rounds N] [--json FILE]``. The budgets are seconds
on the machine of the fact sheet; believe the medians of a quiet run only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_env.tools import EditError, Plan, Snapshot, make_plan, parse_patch, str_replace

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = 300_000
MIB = 1 << 20


def _source() -> bytes:
    """A file of 300,000 lines, about 10 MB, with blocks that repeat and lines that do not."""
    return b"".join(b"    value_%d = compute(%d, other)\n" % (i, i) if i % 3 else b"}\n" for i in range(LINES))


def _patch(old: list[str], new: list[str], context: str = "") -> str:
    body = [f" {context}"] if context else []
    body += [f"-{line}" for line in old] + [f"+{line}" for line in new]
    return "\n".join(["*** Begin Patch", "*** Update File: f", "@@", *body, "*** End Patch"])


def _run(data: bytes, text: str) -> Plan:
    return make_plan(parse_patch(text), {"f": Snapshot(data, "0" * 64)})


def _hit() -> Callable[[], object]:
    data = _source()
    line = 200_002
    text = _patch([f"    value_{line} = compute({line}, other)"], ["    changed"])

    def run() -> object:
        plan = _run(data, text)
        assert plan.changes[0].after is not None, plan.problems
        return plan

    return run


def _miss(text: str, data: bytes, code: str, near: int) -> Callable[[], object]:
    def run() -> object:
        plan = _run(data, text)
        assert plan.problems[0].code == code, plan.problems
        assert len(plan.problems[0].candidates) >= near
        return plan

    return run


def _big() -> bytes:
    line = b"the quick brown fox jumps over the lazy dog 0123456789\n"
    data = line * (100 * MIB // len(line))
    middle = data.find(b"\n", len(data) // 2) + 1
    return data[:middle] + b"unique line here\n" + data[middle:]


def _replace(data: bytes, old: str = "unique line here", new: str = "another line") -> Callable[[], object]:
    def run() -> object:
        edit = str_replace(data, old, new)
        assert len(edit.after) == len(data) - len(old) + len(new)
        return edit

    return run


def _replace_miss(data: bytes) -> Callable[[], object]:
    def run() -> object:
        try:
            return str_replace(data, "not in there\nat all", "x")
        except EditError as error:
            return error

    return run


def _rows() -> list[tuple[str, float, Callable[[], object]]]:
    source = _source()
    missing = _patch(["    value_200002 = compute(7, other)"], ["x"], "    value_200001 = compute(200001, other)")
    crlf = source.replace(b"\n", b"\r\n")
    accented = source.replace(b"value_150001 ", "valüe—150001 ".encode())
    equal = b"}\n" * LINES
    big = _big()
    return [
        ("300,000 lines: hit", 0.15, _hit()),
        (
            "300,000 lines: miss with candidates",
            0.5,
            _miss(missing, source, "context_not_found", 1),
        ),
        ("300,000 lines CR LF: miss", 0.5, _miss(missing, crlf, "context_not_found", 1)),
        ("300,000 lines non-ASCII: miss", 0.5, _miss(missing, accented, "context_not_found", 1)),
        (
            "300,000 equal lines, 2,000-line hunk and one that differs",
            1.0,
            _miss(_patch(["}"] * 2000 + ["x"], ["y"]), equal, "context_not_found", 1),
        ),
        (
            "300,000 equal lines, 2,000-line hunk: ambiguous",
            1.0,
            _miss(_patch(["}"] * 2000, ["y"]), equal, "ambiguous_match", 5),
        ),
        (
            "300,000 equal lines, indented hunk: ambiguous",
            1.0,
            _miss(_patch(["    }"] * 2000, ["y"]), equal, "ambiguous_match", 5),
        ),
        (
            "300,000 lines of alternating indentation, 2,000-line hunk",
            1.0,
            _miss(_patch(["}"] * 2000, ["y"]), b"}\n  }\n" * (LINES // 2), "context_not_found", 1),
        ),
        ("100 MiB str_replace", 0.3, _replace(big)),
        ("100 MiB CR LF str_replace", 0.3, _replace(big.replace(b"\n", b"\r\n"))),
        (
            "100 MiB str_replace, mixed ends",
            1.0,
            _replace(big + b"\r\n\r\n", "here\nthe", "her\nthe"),
        ),
        ("100 MiB str_replace, miss", 0.3, _replace_miss(big)),
    ]


def _measure(rows: list[tuple[str, float, Callable[[], object]]], rounds: int) -> list[dict[str, object]]:
    times: dict[str, list[float]] = {name: [] for name, _, _ in rows}
    for _ in range(rounds):
        for name, _, run in rows:
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return [
        {
            "what": name,
            "median_s": round(statistics.median(times[name]), 4),
            "min_s": round(min(times[name]), 4),
            "budget_s": budget,
            "ok": statistics.median(times[name]) <= budget,
        }
        for name, budget, _ in rows
    ]


def main() -> int:
    """Measure, print, and return 1 if a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = _measure(_rows(), arguments.rounds)
    for row in results:
        mark = "ok  " if row["ok"] else "OVER"
        timing = f"{row['median_s']:>8} s  (min {row['min_s']}, budget {row['budget_s']})"
        print(f"{mark} {timing}  {row['what']}")
    text = json.dumps({"python": sys.version.split()[0], "rounds": arguments.rounds, "rows": results})
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
