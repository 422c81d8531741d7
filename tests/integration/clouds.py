"""What the tests of all cloud backends do alike: open sandboxes and close them, and ask with `hermes-env probe`."""

from __future__ import annotations

import glob
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_env import (
    BaseEnvironment,
    CommandCancelled,
    StagedEnvironment,
    open_environment,
)

# Tests that several modules derive fail as readably as those that stand in one.
pytest.register_assert_rewrite("tests.integration.cloud_tests")

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


def hold_quick_laws(
    backend: str, switches: Sequence[str] = (), program: Sequence[str] = ("-m", "hermes_env_conformance")
) -> None:
    """The quick profile is green on the backend's emulator with these switches; `program` is what Python runs."""
    argv = [sys.executable, str(ROOT / "tests/emulators" / backend)]
    argv += [part for switch in switches for part in ("--switch", switch)]
    argv += ["--", sys.executable, *program, backend, "--profile", "quick"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-20_000:]


def ident(env: BaseEnvironment) -> str:
    """Id of the sandbox of an environment."""
    return env.ref.partition("://")[2]


def staged(env: BaseEnvironment) -> list[str]:
    """Names of the command files in the client's private directory."""
    assert isinstance(env, StagedEnvironment)
    kept = (".claim", "/lease")
    return sorted(name for name in glob.glob(f"{env._area.home}/*") if not name.endswith(kept))


def pids(emulator: Any, env: BaseEnvironment) -> list[int]:
    """Processes of the sandbox."""
    found: list[int] = emulator.sandboxes()[ident(env)]["pids"]
    return found


def cancelled(env: BaseEnvironment, emulator: Any, endpoint: str, script: str, **settings: Any) -> None:
    """Start a command, wait until a request of it is held, and cancel it."""
    process = env.start(script, **settings)
    emulator.wait_held(endpoint)
    process.kill()
    with pytest.raises(CommandCancelled):
        process.wait(60)


def at_once(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Do the work for each item, each on a thread of its own."""
    threads = [threading.Thread(target=work, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
