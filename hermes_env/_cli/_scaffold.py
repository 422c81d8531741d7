"""`hermes-env new-backend`: writes a plugin project that keeps every law from its first minute."""

from __future__ import annotations

import importlib.metadata
import os
import re
from string import Template

from hermes_env._errors import InvalidArgument
from hermes_env._registry import GROUP

_TAKEN = frozenset({"aio", "conformance", "daytona", "docker", "files", "local", "modal", "ssh", "tools", "vercel"})
"""Backends and packages of the framework itself: a project of that name would replace or shadow them."""

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "hermes-env-$dashed"
version = "0.1.0"
description = "Backend $name for hermes-env"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["hermes-env"]

[project.optional-dependencies]
test = ["hermes-env[conformance]"]

[project.entry-points."hermes_env.backends"]
$name = "hermes_env_$name:${title}Environment"

[tool.hatch.build.targets.wheel]
packages = ["hermes_env_$name"]

[tool.pytest.ini_options]
testpaths = ["tests"]
filterwarnings = ["error"]
"""

_INIT = '''\
"""Backend `$name` for hermes_env."""

from ._environment import ${title}Environment as ${title}Environment

__all__ = ["${title}Environment"]
'''

_ENVIRONMENT = '''\
"""Commands through a command-line tool."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, ClassVar

from hermes_env import BackendUnavailable, CommandEnvironment, LazyOptions

if TYPE_CHECKING:
    from hermes_env import Launch


class ${title}Environment(CommandEnvironment):
    """Runs every command behind a prefix; the one it comes with, `env`, changes nothing.

    What is declared here is what the conformance suite holds it to: see `hermes_env.Capabilities`.
    """

    Options: ClassVar[Any] = LazyOptions("hermes_env_$name._options:${title}Options")

    def _open(self) -> None:
        """Make what commands run in; here it exists already."""
        program = self.options.prefix[0]
        if shutil.which(program) is None:
            raise BackendUnavailable(f"{program} is not installed", reason="not_installed")

    def _close(self) -> None:
        """Undo what `_open` made."""

    def _argv(self, launch: Launch) -> list[str]:
        """The command line for one command. Variables and stdin travel by themselves, never in here."""
        return [*self.options.prefix, *launch.argv()]
'''

_OPTIONS = '''\
"""Options of the backend."""

from __future__ import annotations

from pydantic import Field

from hermes_env import BackendOptions


class ${title}Options(BackendOptions):
    """What `open_environment("$name", ...)` takes. Declare what is secret as `pydantic.SecretStr`."""

    prefix: tuple[str, ...] = Field(default=("env",), min_length=1)
    """The tool and its arguments, for example ("kubectl", "exec", "-i", "my-pod", "--")."""
'''

_TEST = '''\
"""The laws of hermes_env, for this backend."""

from typing import ClassVar

from hermes_env_conformance import ConformanceSuite


class TestConformance(ConformanceSuite):
    """Every law; one that cannot hold yet goes into `known_gaps`, by name and with its reason."""

    backend = "$name"
    profile = "quick"
    options: ClassVar = {}
    known_gaps: ClassVar = {}
'''

_README = """\
# hermes-env-$dashed

Backend `$name` for hermes-env.

```sh
pip install -e '.[test]'
pytest                                    # the laws, quick profile
hermes-env doctor $name                   # what is in there
hermes-env conformance $name              # the laws, default profile, with a report by --report DIR
```

1. Put your tool into `_argv` of `hermes_env_$name/_environment.py`, and what it needs into `_options.py`.
2. Declare in `capabilities` what is true of it.
3. Run `pytest`. Every red line says which promise is broken, what was expected and what arrived.
"""

_FILES = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "hermes_env_$name/__init__.py": _INIT,
    "hermes_env_$name/_environment.py": _ENVIRONMENT,
    "hermes_env_$name/_options.py": _OPTIONS,
    "hermes_env_$name/py.typed": "",
    "tests/test_conformance.py": _TEST,
}


def write_project(name: str, folder: str | None) -> list[str]:
    """Write the project and return the paths of its files.

    Raises:
        InvalidArgument: The name cannot be a package or is taken, or the folder holds something already.
        OSError: It cannot be written.
    """
    if re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", name) is None:
        raise InvalidArgument("NAME", f"must be lower-case letters, digits and single _, not {name!r}")
    if name in _TAKEN or name in importlib.metadata.entry_points(group=GROUP).names:
        raise InvalidArgument("NAME", f"{name} is taken by hermes-env itself or by an installed backend")
    dashed = name.replace("_", "-")
    root = folder or f"hermes-env-{dashed}"
    if os.path.lexists(root) and (not os.path.isdir(root) or os.listdir(root)):
        raise InvalidArgument("--dir", f"{root} is there already and not empty")
    words = {"name": name, "dashed": dashed, "title": "".join(part.capitalize() for part in name.split("_"))}
    return [_write(root, path, text, words) for path, text in _FILES.items()]


def _write(root: str, path: str, text: str, words: dict[str, str]) -> str:
    target = os.path.join(root, Template(path).substitute(words))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8") as file:
        file.write(Template(text).substitute(words))
    return target
