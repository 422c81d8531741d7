"""Says what to install where the suite was installed without what it needs; imported before everything else."""

from __future__ import annotations

import importlib.util

_MISSING = [name for name in ("hypothesis", "pytest") if importlib.util.find_spec(name) is None]
if _MISSING:
    raise ModuleNotFoundError(
        f"the conformance suite needs {' and '.join(_MISSING)}: pip install 'hermes-env[conformance]'",
        name=_MISSING[0],
    )
