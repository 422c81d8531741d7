"""What laws of cancellation leave behind when they do not apply, or fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes_env_conformance import InsideOracle
from hermes_env_conformance._lab import Bench, Lab, Settings
from hermes_env_conformance._trial import Trials, trials

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment


def lab(env: BaseEnvironment) -> Lab:
    """Means of a law on an environment that is open already."""
    return Lab(Bench(lambda **_: env, InsideOracle(), Settings("quick"), env), "a law")


def test_a_law_that_does_not_apply_starts_nothing(local: BaseEnvironment) -> None:
    """No neighbour waits beside all later laws, taking a hundredth of a second of each tenth."""
    with pytest.raises(pytest.skip.Exception), trials(lab(local)) as found:
        found.armed("stdin", kind="late")
    assert found._neighbour is None


def test_a_law_that_fails_lets_the_neighbour_go(local: BaseEnvironment) -> None:
    """The command that must not notice anything ends with its law, whatever the law comes to."""

    def fail(found: Trials) -> None:
        found.trial()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), trials(lab(local)) as found:
        fail(found)
    assert found._neighbour is not None
    assert found._neighbour.wait(60).stdout == b"survived\n"
