"""`hermes-env doctor`: opens one environment and tells what was found in it."""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hermes_env._codec import display
from hermes_env._command import OUTPUT_LIMIT

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment

    from ._settings import Settings

_TOOLS = (
    "awk",
    "base64",
    "bash",
    "busybox",
    "cat",
    "chmod",
    "chown",
    "cksum",
    "cp",
    "dd",
    "find",
    "git",
    "head",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "od",
    "openssl",
    "perl",
    "python3",
    "readlink",
    "rm",
    "sed",
    "setsid",
    "sh",
    "sha256sum",
    "shasum",
    "sort",
    "stat",
    "sync",
    "tar",
    "tr",
    "wc",
    "xargs",
)
_HASHERS = ("openssl", "sha256sum", "shasum", "python3")

_SURVEY = r"""
if [ -n "${BASH_VERSION-}" ]; then s="bash $BASH_VERSION"
elif [ -n "${ZSH_VERSION-}" ]; then s="zsh $ZSH_VERSION"
elif [ -n "${KSH_VERSION-}" ]; then s="$KSH_VERSION"
elif [ -n "${YASH_VERSION-}" ]; then s="yash $YASH_VERSION"
else s="sh"; fi
p=$(readlink -f /bin/sh 2>/dev/null) || p=/bin/sh
printf 'shell\t%s (%s)\n' "$s" "${p:-/bin/sh}"
printf 'system\t%s\n' "$(uname -sm 2>/dev/null || echo unknown)"
printf 'user\t%s\n' "$(id -un 2>/dev/null || id -u 2>/dev/null || echo unknown)"
printf 'directory\t%s\n' "$(pwd -P)"
for t in awk base64 bash busybox cat chmod chown cksum cp dd find git head kill ln ls mkdir mktemp mv od openssl perl \
  python3 readlink rm sed setsid sh sha256sum shasum sort stat sync tar tr wc xargs
do if command -v "$t" >/dev/null 2>&1; then k=tool; else k=missing; fi; printf '%s\t%s\n' "$k" "$t"; done
"""
_EVERY_BYTE = bytes(range(256)) * 640
"""160 KiB that hold NULs: more than one argument of Linux can carry, and no text."""


def examine(env: BaseEnvironment, name: str, settings: Settings) -> int:
    """Print the findings; 0 when bytes came back unchanged, else 1."""
    report = env.run_script(_SURVEY, timeout=60.0)
    facts = [line.split("\t", 1) for line in display(report.stdout).splitlines() if "\t" in line]
    tools = [value for key, value in facts if key == "tool"]
    missing = [value for key, value in facts if key == "missing"]
    echoed = env.exec(["cat"], stdin=_EVERY_BYTE, timeout=60.0, output_limit=OUTPUT_LIMIT)
    intact = echoed.ok and echoed.stdout == _EVERY_BYTE
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in [
        ("backend", f"{name} ({settings.backend.__module__}:{settings.backend.__qualname__})"),
        *((key, value) for key, value in facts if key not in ("tool", "missing")),
        ("bytes", f"{len(_EVERY_BYTE)} of every value through cat: " + ("unchanged" if intact else "DAMAGED")),
        (
            "hashers",
            ", ".join(tool for tool in _HASHERS if tool in tools) or "none: writes cannot be verified by digest",
        ),
        ("tools", " ".join(tools)),
        ("missing", " ".join(missing) or "none of those looked for"),
        *_credentials(env),
        ("stdin mode", env.stdin_mode.value),
        *_capabilities(env),
        *_options(settings),
    ]:
        table.add_row(key, Text(value))
    Console(file=sys.stdout, highlight=False).print(table)
    return 0 if intact else 1


def _credentials(env: BaseEnvironment) -> list[tuple[str, str]]:
    source = env._credentials()  # noqa: SLF001 - a hook of the contract
    return [] if source is None else [("credentials", f"from {source}")]


def _capabilities(env: BaseEnvironment) -> list[tuple[str, str]]:
    declared = dataclasses.asdict(env.capabilities)
    return [(key.replace("_", " "), _word(value)) for key, value in declared.items()]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "no limit known"
    return str(value.value if isinstance(value, Enum) else value)


def _options(settings: Settings) -> list[tuple[str, str]]:
    """Where each option came from; never its value, which may be a secret."""
    model = settings.backend.Options
    if model is None:
        return [("options", "this backend takes none")]
    return [(f"option {option}", f"from {settings.sources.get(option, 'default')}") for option in model.model_fields]
