"""The laws of hermes_env for the backend `example`, and what only it promises."""

from pathlib import Path

from hermes_env import open_environment
from hermes_env_conformance import ConformanceSuite


class TestConformance(ConformanceSuite):
    """Every law holds: there are no known gaps."""

    backend = "example"
    profile = "quick"


def test_commands_stand_back() -> None:
    """A command runs at the priority that was asked for."""
    with open_environment("example", niceness=19) as env:
        assert env.exec(["nice"]).text == "19\n"


def test_the_home_goes_with_the_environment() -> None:
    """The home directory is there while the environment is open, and not afterwards."""
    with open_environment("example") as env:
        home = Path(env.exec('printf %s "$HOME"').text)
        assert home.is_dir()
    assert not home.exists()
