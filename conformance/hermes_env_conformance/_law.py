"""What makes a test method a law: its statement, what it needs, and a watchdog around it."""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hermes_env import Capabilities

    from ._lab import Lab

Body = Callable[[Any, "Lab"], None]
NOT_APPLICABLE = "not applicable: "


@dataclass(frozen=True, slots=True)
class Law:
    """One promise of the contract."""

    name: str
    chapter: str
    statement: str
    needs: tuple[str, ...]
    variant: bool
    """Is also run by variants of a backend: other shells, images and users."""
    covers: tuple[str, ...] = ()
    """Of cancellation: ``state: event``."""


def law(*needs: str, variant: bool = False, covers: Sequence[str] = ()) -> Callable[[Body], Body]:
    """Make a method a law.

    Args:
        *needs: Capabilities without which the law says nothing: ``"streaming"`` or ``"kill_scope=command"``.
        variant: Variants of a backend run it too.
        covers: Of cancellation: every ``state: event`` that it is about.
    """

    def decorate(body: Body) -> Body:
        statement = (body.__doc__ or "").strip()
        chapter = body.__module__.rpartition("._")[2].partition("_")[0]

        @functools.wraps(body)
        def guarded(self: Any, lab: Lab) -> None:
            watched(lambda: judge(self, lab), lab)

        def judge(self: Any, lab: Lab) -> None:
            reason = unmet(needs, lab.env.capabilities)
            if reason:
                pytest.skip(NOT_APPLICABLE + reason)
            body(self, lab)

        guarded.law = Law(body.__name__, chapter, statement, needs, variant, tuple(covers))  # type: ignore[attr-defined]  # pytest collects functions, and these take attributes
        return guarded

    return decorate


def unmet(needs: tuple[str, ...], capabilities: Capabilities) -> str | None:
    """The first capability that is needed and not declared."""
    for need in needs:
        name, _, value = need.partition("=")
        declared = getattr(capabilities, name)
        if (str(declared) != value) if value else not declared:
            return f"needs {need}, the environment declares {name}={declared}"
    return None


class Hung(Exception):
    """A call did not return in time; the message says where it hangs."""


def watched(body: Callable[[], None], lab: Lab) -> None:
    """Run a law on a thread that can be left behind, so that one that hangs fails and the run goes on."""
    try:
        within(lab.deadline, body)
    except Hung as error:
        lab.abandon()
        pytest.fail(f"did not end within {lab.deadline:g} s; it hangs here:\n{error}", pytrace=False)


def within(seconds: float, body: Callable[[], None]) -> None:
    """Run something that may hang.

    Raises:
        Hung: It does; the thread that runs it is left behind.
    """
    caught: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again on the test's own thread
            caught.append(error)

    thread = threading.Thread(target=run, name="hermes-env-law", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Hung(_stack(thread))
    if caught:
        raise caught[0]


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the only way to see where it hangs
    if frame is None:
        return "  (ended meanwhile)"
    lines = traceback.format_stack(frame)
    own = [line for line in lines[:-3] if os.path.dirname(__file__) in line and "_law.py" not in line]
    return "".join([*own[-2:], *lines[-3:]]).rstrip()


def laws_of(suite: type) -> dict[str, Law]:
    """Every law of a class by name, in the order in which the chapters state them."""
    found = {}
    for base in reversed(suite.__mro__):
        for name, value in vars(base).items():
            if isinstance(declared := getattr(value, "law", None), Law):
                found[name] = declared
    return found
