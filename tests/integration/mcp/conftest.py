"""Servers that talk over pipes and over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mcp.serving import Server
from tests.slow import ALL, told


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Server:
    """One way to serve after the other."""
    return Server(request.param, tmp_path)


@pytest.fixture
def either(server: Server) -> Server:
    """The same, where the way makes no difference: one of them will do for the run that everyone waits for."""
    if server.kind == "http" and not ALL:
        pytest.skip(told("takes long"))
    return server


@pytest.fixture
def stdio(tmp_path: Path) -> Server:
    """A server over stdio."""
    return Server("stdio", tmp_path)
