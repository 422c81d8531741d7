"""Lets pytest collect a suite class that is in no test file."""

from __future__ import annotations

import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from ._law import Law

ENTRY = Path(__file__).with_name("_suite.py")
"""The file that stands for the class on pytest's command line."""


class _SuiteModule(pytest.Module):
    """A module whose only content is one suite class."""

    suite: type

    def _getobj(self) -> Any:
        module = types.ModuleType("hermes_env_conformance_run")
        setattr(module, self.suite.__name__, self.suite)
        return module


class Collector:
    """A pytest plugin that collects one suite class, or the chosen laws of it."""

    def __init__(self, suite: type, chosen: Collection[str]) -> None:
        self._suite, self._chosen = suite, chosen

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """Put the class in the place of our own file."""
        if module_path != ENTRY:
            return None
        module = _SuiteModule.from_parent(parent, path=module_path)
        module.suite = self._suite
        return module

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the laws that were not chosen."""
        left_out = [item for item in items if not self._is_chosen(item)]
        if left_out:
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)

    def _is_chosen(self, item: pytest.Item) -> bool:
        law = getattr(getattr(item, "function", None), "law", None)
        if not isinstance(law, Law) or getattr(item, "cls", None) is not self._suite:
            return True
        return law.name in self._chosen
