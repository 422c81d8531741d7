"""`hermes-env cp`: files and folders between an environment and this machine, with a progress bar on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_env._codec import display, encode_lossless
from hermes_env._errors import InvalidArgument
from hermes_env._registry import list_backends

from ._failure import say

if TYPE_CHECKING:
    from hermes_env._base import BaseEnvironment
    from hermes_env.files import TransferResult

_REF = re.compile(r"([a-z]\w*://(?:\[[^]/]*\]|[^/:[])+(?::[0-9]+(?=:))?):(.+)", re.DOTALL)
"""The ref of an environment that runs already, whose identity may end in a port, and a path in it."""
Report = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where."""

    backend: str
    inside: str
    """Path in the environment."""
    here: str
    """Path on this machine."""
    up: bool
    """Into the environment."""


def route(source: str, target: str) -> Route:
    """Tell which of the two is in an environment, and which one.

    Raises:
        InvalidArgument: Neither of them is, or both are.
    """
    ends = [_remote(source), _remote(target)]
    match ends:
        case [None, (backend, path)]:
            return Route(backend, _into(path, source), source, up=True)
        case [(backend, path), None]:
            return Route(backend, path, _into(target, path), up=False)
    problem = "exactly one of SOURCE and TARGET must be NAME:PATH; write ./a:b for a local name with a colon"
    raise InvalidArgument("SOURCE TARGET", problem)


def _remote(text: str) -> tuple[str, str] | None:
    if joined := _REF.fullmatch(text):
        return joined[1], joined[2]
    name, colon, path = text.partition(":")
    if not colon or "/" in name:
        return None
    if path.count(":") and name not in {backend.name for backend in list_backends()}:
        kind, _, path = path.partition(":")
        name = f"{name}:{kind}"
    if not path:
        raise InvalidArgument(text.removesuffix(":"), "names no path: write NAME:PATH")
    return name, path


def _into(target: str, source: str) -> str:
    """A target that ends in a slash gets the copy under the source's own name."""
    if target.rpartition("/")[2] not in ("", ".", ".."):
        return target
    name = source.rstrip("/").rpartition("/")[2]
    if name in ("", ".", ".."):
        return target
    return os.path.join(target, name)


def copy(env: BaseEnvironment, way: Route, *, make_parents: bool) -> int:
    """Copy, and say on stderr what was copied and how that was verified.

    Raises:
        OSError, HermesEnvError: See `Files.upload` and `Files.download`; what has arrived by then stays.
    """
    with _bar() as (progress, expect):
        if way.up:
            result = env.files.upload(way.here, way.inside, make_parents=make_parents, progress=progress, expect=expect)
        else:
            if make_parents:
                os.makedirs(os.path.dirname(encode_lossless(way.here)) or b".", exist_ok=True)
            result = env.files.download(way.inside, way.here, progress=progress, expect=expect)
    for skipped in result.skipped:
        say(f"left out {skipped.path}: it is a {skipped.kind}")
    say(_sentence(result))
    return 0


@contextmanager
def _bar() -> Iterator[tuple[Report | None, Report | None]]:
    """A progress bar where a person looks; nothing in logs and pipes."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None, None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def progress(done: int) -> None:
            bar.update(task, completed=done)

        def expect(total: int) -> None:
            bar.update(task, total=total)

        yield progress, expect


def _sentence(result: TransferResult) -> str:
    parts = [_count(result.files, "file") + f" ({result.size} bytes)"]
    if result.unchanged:
        parts.append(f"{result.unchanged} unchanged")
    if result.directories:
        parts.append(_count(result.directories, "new folder"))
    if result.links:
        parts.append(_count(result.links, "link"))
    proof = f"verified by {result.verified_by}" if result.verified else "NOT VERIFIED: the environment has no hasher"
    return f"copied {', '.join(parts)} to {display(encode_lossless(result.path))}; {proof}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
