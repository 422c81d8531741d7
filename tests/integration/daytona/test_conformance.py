"""Every law of the contract, under each shell of the service and with each name of the SDK."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from hermes_env import BaseEnvironment, open_environment
from hermes_env_conformance import ConformanceSuite
from tests.emulators.daytona._switches import SDK_VERSION
from tests.emulators.daytona.client import Emulator
from tests.integration.clouds import hold_quick_laws
from tests.integration.daytona.conftest import LIVE, LIVE_OPTIONS
from tests.slow import ALL, slow

SLOW = slow("takes minutes")


@pytest.fixture(scope="module", autouse=True)
def _service(shared: Emulator | None) -> None:
    TestConformance.emulator = shared


class TestConformance(ConformanceSuite):
    """All laws, with the service's own shell."""

    backend = "daytona"
    profile = "default" if ALL else "quick"
    against = None if LIVE else f"emulator of SDK {SDK_VERSION}"
    patience = 60.0
    emulator: ClassVar[Emulator | None] = None

    def open_environment(self, **settings: Any) -> BaseEnvironment:
        """A sandbox of the emulator, or a live one."""
        access = LIVE_OPTIONS
        if self.emulator is not None:
            access = {"api_key": self.emulator.key, "api_url": self.emulator.api_url, "target": "local"}
        return open_environment(self.backend, **{**access, **settings})


@SLOW
@pytest.mark.skipif(LIVE, reason="the emulator's shells are chosen here")
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_laws_hold_under_the_other_shells(shell: str) -> None:
    """The quick profile is green whichever shell the service gives command text to."""
    hold_quick_laws("daytona", [f"shell={shell}"])


@SLOW
@pytest.mark.skipif(LIVE, reason="it is about what is installed, not about the service")
def test_the_laws_hold_with_the_deprecated_package() -> None:
    """Where only `daytona-sdk` is installed, whose import name is another, the quick profile is green, too."""
    hide = "import sys; sys.modules['daytona'] = None\n"
    program = f"{hide}from hermes_env_daytona import _sdk; assert _sdk.load().__name__ == 'daytona_sdk'\n"
    program += "from hermes_env_conformance.__main__ import main; sys.exit(main(sys.argv[1:]))"
    hold_quick_laws("daytona", program=["-c", program])
