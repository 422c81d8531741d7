"""Turns what a user asks for into a suite class and the names of the laws to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from hermes_env import BaseEnvironment, InvalidArgument

from ._corpus import PROFILES, Profile
from ._lab import WORKSPACE
from ._suite import CHAPTERS, LAWS, ConformanceSuite

if TYPE_CHECKING:
    from ._oracle import Oracle


def choose_laws(chapters: Collection[str], laws: Collection[str], *, variant: bool = False) -> list[str]:
    """Names of the laws of these chapters, or of these laws; all of them when neither is given.

    Args:
        chapters: Only these chapters.
        laws: Only these laws.
        variant: Only the laws that another shell, image or user could break.

    Raises:
        InvalidArgument: There is no such chapter or law.
    """
    for kind, asked, known in (("chapter", chapters, CHAPTERS), ("law", laws, LAWS)):
        unknown = sorted(set(asked) - set(known))
        if unknown:
            hint = f"; known: {', '.join(CHAPTERS)}" if kind == "chapter" else ""
            raise InvalidArgument(kind, f"there is none named {', '.join(unknown)}{hint}")
    return [
        name
        for name, law in LAWS.items()
        if (not chapters or law.chapter in chapters) and (not laws or name in laws) and (law.variant or not variant)
    ]


def make_suite(
    backend: str,
    *,
    options: Mapping[str, Any] | None = None,
    profile: Profile = "default",
    known_gaps: Mapping[str, str] | None = None,
    patience: float = 30.0,
    workspace: str = WORKSPACE,
    against: str | None = None,
    oracle: Oracle | None = None,
    first: BaseEnvironment | None = None,
) -> type[ConformanceSuite]:
    """A suite class for one backend.

    Raises:
        InvalidArgument: A value is not one of those allowed, or a gap is not a law.
    """
    if profile not in PROFILES:
        raise InvalidArgument("profile", f"must be one of {', '.join(PROFILES)}, not {profile!r}")
    if not patience > 0:
        raise InvalidArgument("patience", f"must be seconds > 0, not {patience!r}")
    if not workspace.startswith("/"):
        raise InvalidArgument("workspace", f"must be an absolute path, not {workspace!r}")
    members: dict[str, Any] = {
        "__doc__": f"All laws for {backend}.",
        "backend": backend,
        "options": dict(options or {}),
        "profile": profile,
        "known_gaps": dict(known_gaps or {}),
        "patience": patience,
        "workspace": workspace,
        "against": against,
        "first": first,
    }
    if oracle is not None:
        members["oracle"] = oracle
    try:
        return type("TestConformance", (ConformanceSuite,), members)
    except TypeError as error:
        raise InvalidArgument("known_gaps", str(error)) from None
