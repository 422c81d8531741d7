"""What every emulator's switches have in common."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self


class SwitchSet:
    """Base of a frozen dataclass of switches."""

    def changed(self, values: dict[str, Any]) -> Self:
        """A copy with these switches set.

        Raises:
            ValueError: An unknown switch.
        """
        unknown = set(values) - {field.name for field in fields(self)}  # type: ignore[arg-type]  # a dataclass below
        if unknown:
            raise ValueError(f"unknown switches: {', '.join(sorted(unknown))}")
        return replace(self, **values)  # type: ignore[type-var]  # likewise
