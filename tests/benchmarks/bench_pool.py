"""Rows of sessions and pools: a command of a session, a warm environment against a cold one, many agents on a few.

Run ``python -m tests.benchmarks.bench_pool [--json FILE]``. The rows of Docker need an engine that can be started here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hermes_env import EnvironmentPool, open_environment
from tests.benchmarks.harness import Row, compare, report
from tests.engine import IMAGE, EngineUnavailable, engine

AGENTS = 24


def session() -> list[Row]:
    """`true` in a session, against `true` alone; in bash, which prints functions too, and in the leanest shell."""
    rows = []
    with open_environment("local") as env:
        for shell in ("bash", "/bin/sh"):
            with env.session(shell=shell) as kept:
                rows.append(
                    compare(
                        f"`true` in a session of {shell}",
                        lambda kept=kept: kept.exec("true"),  # type: ignore[misc]
                        lambda: env.exec("true"),
                        rounds=60,
                        budget=5.0,
                        against="env.exec of `true`",
                    )
                )
    return rows


def warm(name: str, budget: float, **settings: Any) -> Row:
    """To have an environment that answers: from a pool that had time to fill, against opening one."""
    with EnvironmentPool(name, warm=2, limit=4, **settings) as pool:

        def full() -> None:
            while pool.stats.idle < 2 or pool.stats.closing:
                time.sleep(0.01)

        def take() -> None:
            with pool.take() as env:
                env.exec("true")

        def cold() -> None:
            full()  # What the pool opens in the background must not disturb.
            with open_environment(name, **settings) as env:
                env.exec("true")

        full()
        return compare(f"{name}: a warm one", take, cold, rounds=7, budget=budget, against="open_environment and close")


def agents(name: str, budget: float, **settings: Any) -> Row:
    """Many agents of three commands each, eight at a time: four environments used again, against one for each."""

    def work(env: Any) -> None:
        for _ in range(3):
            env.exec("true")

    def each(agent: Callable[[int], None]) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(agent, range(AGENTS)))

    def one_for_each(_: int) -> None:
        with open_environment(name, **settings) as env:
            work(env)

    def pooled() -> None:
        with EnvironmentPool(name, warm=4, limit=4, reuse=True, **settings) as pool:

            def agent(_: int) -> None:
                with pool.take() as env:
                    work(env)

            each(agent)

    what = f"{name}: {AGENTS} agents, a pool of 4 from its opening to its end"
    return compare(what, pooled, lambda: each(one_for_each), rounds=3, budget=budget, against="one for each agent")


def main(argv: list[str]) -> int:
    """Measure and report."""
    rows = [*session(), warm("local", 1.5), agents("local", 1.5)]
    try:
        with engine() as found:
            settings = {"image": IMAGE, "host": found.host, "ttl": 3600}
            rows += [warm("docker", 0.5, **settings), agents("docker", 0.6, **settings)]
    except EngineUnavailable as error:
        sys.stderr.write(f"no rows of Docker: {error}\n")
    return report("Sessions and pools", rows, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
