"""How strict a patch is taken: the default, and what other tools have taught agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hermes_env.tools._match import CODEX_TIERS, DEFAULT_TIERS, Tier

Compat = Literal["default", "codex", "hermes"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides where a hunk goes and which operations are allowed."""

    tiers: tuple[Tier, ...] = DEFAULT_TIERS
    first_match: bool = False
    """Take the first of several equal places, and append hunks without old lines to the file."""
    overwrite: bool = False
    """Add and Move may replace an existing file."""
    idempotent: bool = False
    """A hunk that was already applied is no error."""
    partial: bool = False
    """Operations before the first failing one are still planned."""
    force_final_newline: bool = False
    """An update ends the last line of the file."""


_RULES: Final[dict[Compat, Rules]] = {
    "default": Rules(),
    "codex": Rules(tiers=CODEX_TIERS, first_match=True, overwrite=True, partial=True, force_final_newline=True),
    "hermes": Rules(tiers=(*DEFAULT_TIERS, Tier.STRIP), idempotent=True),
}


def rules_for(compat: Compat) -> Rules:
    """Return the rules of a compatibility switch.

    ``codex`` follows the reference implementation where the default is stricter: its tiers, the
    first match, overwriting, sequential commit and the forced final newline. ``hermes`` adds the
    tier that ignores all indentation (the place must still be unique) and takes an applied hunk as
    success; similarity is never used.

    Raises:
        ValueError: ``compat`` is none of the three.
    """
    try:
        return _RULES[compat]
    except KeyError:
        raise ValueError(f"compat must be one of {', '.join(_RULES)}, not {compat!r}") from None
