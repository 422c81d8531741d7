"""Places where tools work: this machine natively and through scripts, a staged backend, and a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_env import BaseEnvironment, open_environment
from hermes_env.tools import FilePolicy, FileTools
from tests.integration.files.conftest import ShellEnvironment

KINDS = ("native", "sh", "staged", "docker")

_TREE = r"""
cd "$1" && find . | LC_ALL=C sort | while IFS= read -r f; do
  if [ -L "$f" ]; then printf 'l %s -> %s\n' "$f" "$(readlink "$f")"
  elif [ -f "$f" ]; then printf 'f %s %s %s\n' "$(stat -c %a "$f")" "$(sha256sum <"$f")" "$f"
  else printf 'd %s %s\n' "$(stat -c %a "$f")" "$f"
  fi
done
"""

_HOME = re.compile(r"^N=\$1; shift$", re.MULTILINE)
"""Where the prologue of a file script ends its work on inherited functions."""


def tree(directory: Path) -> str:
    """Every path below a directory with kind, mode and SHA-256 or target, by programs of this machine."""
    done = subprocess.run(["sh", "-c", _TREE, "sh", directory], capture_output=True, check=True)
    return os.fsdecode(done.stdout)


@dataclass
class Bench:
    """One environment, its directory as seen from outside, and what was sent to it."""

    kind: str
    home: Path
    env: BaseEnvironment
    scripts: list[str] = field(default_factory=list)
    """Every script that was run."""
    fault: Callable[[str], str] | None = None
    """What becomes of the text of a script before it is run."""

    @property
    def root(self) -> Path:
        """The workspace."""
        return self.home / "work"

    @property
    def state(self) -> Path:
        """Where journals stand."""
        return self.home / "state"

    def put(self, name: str, data: bytes, mode: int = 0o644) -> Path:
        """Make a file without the code under test."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        return path

    def cat(self, name: str) -> bytes:
        """What another program reads."""
        return subprocess.run(["cat", self.root / name], capture_output=True, check=True).stdout

    def tree(self) -> str:
        """The whole workspace."""
        return tree(self.root)

    def journals(self) -> list[str]:
        """What stands in the state directory."""
        return sorted(os.listdir(self.state)) if self.state.exists() else []

    def left_over(self) -> list[str]:
        """Temporary files anywhere."""
        return [str(path) for path in self.home.rglob(".hermes+*")]

    def tools(self, policy: FilePolicy | None = None, **settings: Any) -> FileTools:
        """Tools on the workspace, in which everything is confirmed."""
        asked: dict[str, Any] = {
            "confirm": lambda event, reasons: True,
            "store_dir": str(self.home / "store"),
            "state_dir": str(self.state),
        }
        return FileTools(self.env, policy or FilePolicy(workspace=str(self.root)), **{**asked, **settings})

    def watch(self) -> None:
        """Note every script, and let `fault` change it."""
        run = self.env.run_script

        def run_script(script: str, *args: Any, **settings: Any) -> Any:
            self.scripts.append(script)
            return run(self.fault(script) if self.fault else script, *args, **settings)

        self.env.run_script = run_script  # type: ignore[method-assign]


def with_functions(script: str, functions: str) -> str:
    """A file script in which shell functions stand before the tools they are named for."""
    changed, count = _HOME.subn(lambda found: f"{found[0]}\n{functions}", script)
    assert count == 1
    return changed


def is_commit(script: str) -> bool:
    """Whether a script is the one that changes files."""
    return "prep_W()" in script and "do_W()" in script and "search()" not in script


@contextmanager
def directory() -> Iterator[Path]:
    """A directory with an empty workspace that every user and container can reach."""
    name = tempfile.mkdtemp(prefix="hermes-tools-", dir="/tmp")
    try:
        Path(name).chmod(0o755)
        (Path(name) / "work").mkdir()
        yield Path(name)
    finally:
        shutil.rmtree(name)


def open_kind(kind: str, home: Path, **docker: Any) -> BaseEnvironment:
    """An open environment in which the directory has the same path."""
    work = str(home / "work")
    if kind == "native":
        return open_environment("local", cwd=work)
    if kind == "sh":
        return ShellEnvironment(cwd=work).open()
    if kind == "staged":
        sdk = home / "sdk"
        sdk.mkdir(exist_ok=True)
        return open_environment("tests.backends.uploads:UploadEnvironment", root=str(sdk), cwd=work)
    return open_environment("docker", cwd=work, **docker)


def make_bench(kind: str, home: Path, env: BaseEnvironment) -> Bench:
    """A watched place."""
    bench = Bench(kind, home, env)
    bench.watch()
    return bench
