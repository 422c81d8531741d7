"""The page about the backend names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from hermes_env_ssh._config import _USED
from hermes_env_ssh._options import SshOptions

PAGE = (Path(__file__).parents[2] / "docs/ssh.md").read_text(encoding="utf-8")


def test_every_option_is_in_the_table() -> None:
    """The table of options has exactly those of the model."""
    table = PAGE.partition("## Options")[2].partition("\n\nSecrets")[0]
    named = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert named == set(SshOptions.model_fields)


def test_every_directive_is_named() -> None:
    """What is read from the configuration is listed."""
    assert {name for name in _USED if name not in PAGE.lower()} == set()


def test_options_have_a_schema() -> None:
    """Tools can show the options: secrets are marked, functions left out."""
    password = SshOptions.model_json_schema()["properties"]["password"]
    assert password["anyOf"][0] == {"format": "password", "type": "string", "writeOnly": True}
