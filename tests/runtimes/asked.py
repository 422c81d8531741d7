"""What the caller of a suite asked for: an environment, and why some of the suite's tests cannot hold in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

BACKEND: str = os.environ["HERMES_ENV_TEST_BACKEND"]
OPTIONS: dict[str, Any] = json.loads(os.environ.get("HERMES_ENV_TEST_OPTIONS", "{}"))
"""Of that backend."""


class Reasons:
    """Tests of others that cannot hold, each with its reason; one that holds after all fails, as do unknown names."""

    def __init__(self, always: Mapping[str, str], **of_backend: Mapping[str, str]) -> None:
        self._reasons = {**always, **of_backend.get(BACKEND, {})}

    def mark(self, items: list[pytest.Item]) -> None:
        """Expect these tests to fail, all others to hold."""
        known = {item.name for item in items}
        if unknown := self._reasons.keys() - known:
            raise pytest.UsageError(f"reasons for tests that are not there: {', '.join(sorted(unknown))}")
        for item in items:
            if reason := self._reasons.get(item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
