"""What the tests of all cloud backends do alike: open sandboxes and close them, and ask with `hermes-env probe`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_env import BackendUnavailable, BaseEnvironment, open_environment, reap

ROOT = Path(__file__).parents[2]
Open = Callable[..., BaseEnvironment]


def opener(backend: str, common: dict[str, Any]) -> Iterator[Open]:
    """Opens sandboxes with these options; the second step closes them."""
    made: list[BaseEnvironment] = []

    def open_one(**settings: Any) -> BaseEnvironment:
        env = open_environment(backend, **{**common, **settings})
        made.append(env)
        return env

    yield open_one
    for env in made:
        env.close()


def begin_live(backend: str) -> None:
    """Remove what killed runs left at the service; where it cannot be asked, end the run with one message."""
    try:
        reap(backend)
    except BackendUnavailable as error:
        pytest.exit(f"HERMES_ENV_LIVE={backend}: {error}", returncode=3)


def probe(
    backend: str, folder: Path, switches: Sequence[str] = (), options: Sequence[str] = ()
) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Ask the backend's emulator with these switches: exit code, facts by name, and everything that was told."""
    argv = [sys.executable, str(ROOT / "tests/emulators" / backend)]
    argv += [part for switch in switches for part in ("--switch", switch)]
    argv += ["--", sys.executable, "-m", "hermes_env._cli", "probe", backend, "--patience", "2"]
    argv += ["--report", str(folder), *options]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=ROOT, timeout=300)
    (record,) = folder.glob(f"probe-{backend}-*.json")
    text = record.read_text()
    told = done.stdout.decode() + done.stderr.decode() + text
    return done.returncode, {fact["name"]: fact for fact in json.loads(text)["facts"]}, told
