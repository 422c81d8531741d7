"""Every law of the contract, with each answer that the service might give to what is not known of it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from hermes_env import BaseEnvironment, open_environment
from hermes_env_conformance import ConformanceSuite
from tests.emulators.vercel._switches import SDK_VERSION
from tests.emulators.vercel.client import Emulator
from tests.integration.clouds import hold_quick_laws
from tests.integration.vercel.conftest import LIVE, LIVE_OPTIONS, access
from tests.slow import ALL, slow

SLOW = slow("takes minutes")


@pytest.fixture(scope="module", autouse=True)
def _service(shared: Emulator | None) -> None:
    TestConformance.emulator = shared


class TestConformance(ConformanceSuite):
    """All laws, with the emulator as it comes."""

    backend = "vercel"
    profile = "default" if ALL else "quick"
    against = None if LIVE else f"emulator of SDK {SDK_VERSION}"
    patience = 60.0
    emulator: ClassVar[Emulator | None] = None

    def open_environment(self, **settings: Any) -> BaseEnvironment:
        """A sandbox of the emulator, or a live one."""
        return open_environment(self.backend, **{**(access(self.emulator) or LIVE_OPTIONS), **settings})


OTHERWISE = [
    ["log_decode=incremental", "log_chunk_bytes=1021", "wait_for_pipe_end=false", "kill_scope=group", "signal_exit=-1"],
    ["overwrite=replace", "upload_mode=chmod", "stopped=409", "stopped_stream=sandbox_stream_closed"],
    ["stopped=bare 410", "dispatch_seconds=0.05", "start_seconds=1", "stop_seconds=1", "persistent_default=false"],
]
"""Every switch set to what it is not by default, some at a time."""


@SLOW
@pytest.mark.skipif(LIVE, reason="the emulator's switches are set here")
@pytest.mark.parametrize("switches", OTHERWISE, ids=lambda switches: switches[0].partition("=")[0])
def test_the_laws_hold_whatever_the_service_does(switches: list[str]) -> None:
    """The quick profile is green with the other answer to each open question about the service, too."""
    hold_quick_laws("vercel", switches)
