"""Where the Modal backend's token comes from, and what is said when a half of it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_env import BackendUnavailable
from hermes_env_modal._credentials import find
from hermes_env_modal._options import ModalOptions

ID, SECRET = "ak-first", "as-second"
VARIABLES = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_PROFILE", "MODAL_CONFIG_PATH")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file of the test's own, which is not there yet; nothing is set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "modal.toml"
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(path))
    return path


def options(**given: str) -> ModalOptions:
    """Options with these halves."""
    return ModalOptions.model_validate(given)


def refusal(given: ModalOptions) -> str:
    """What is said when there is no token."""
    with pytest.raises(BackendUnavailable) as caught:
        find(given)
    assert caught.value.reason == "no_credentials"
    assert ID not in str(caught.value) and SECRET not in str(caught.value)
    return str(caught.value)


def test_the_first_place_that_has_a_token_is_used(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options come before the environment, and that before the file."""
    config.write_text('[work]\ntoken_id = "ak-file"\ntoken_secret = "as-file"\nactive = true\n')
    assert (found := find(options())).ident == "ak-file" and found.source == f"profile 'work' of {config}"
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-env")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", " as-env\n")
    assert (found := find(options())).secret == "as-env" and found.source == "the environment"
    assert (found := find(options(token_id=ID, token_secret=SECRET))).ident == ID and found.source == "options"
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("text", "profile", "wanted"),
    [
        ('[a]\ntoken_id="ak-a"\ntoken_secret="s"\n[b]\ntoken_id="ak-b"\ntoken_secret="s"\nactive=true\n', None, "ak-b"),
        ('[a]\ntoken_id="ak-a"\ntoken_secret="s"\n[b]\ntoken_id="ak-b"\ntoken_secret="s"\nactive=true\n', "a", "ak-a"),
        ('[default]\ntoken_id="ak-d"\ntoken_secret="s"\n', None, "ak-d"),
    ],
)
def test_the_profile_is_chosen_as_the_sdk_does(
    config: Path, monkeypatch: pytest.MonkeyPatch, text: str, profile: str | None, wanted: str
) -> None:
    """MODAL_PROFILE names it, else the active one counts, else that called default."""
    config.write_text(text)
    if profile is not None:
        monkeypatch.setenv("MODAL_PROFILE", profile)
    assert find(options()).ident == wanted


@pytest.mark.parametrize(
    ("given", "variables", "words"),
    [
        ({"token_id": ID}, {}, ["token secret", "token_secret is missing", "token_id, comes from options"]),
        ({"token_secret": SECRET}, {"MODAL_TOKEN_ID": ID}, ["token id", "token_id is missing", "comes from options"]),
        ({}, {"MODAL_TOKEN_ID": ID}, ["MODAL_TOKEN_SECRET is missing", "MODAL_TOKEN_ID, comes from the environment"]),
        ({}, {"MODAL_TOKEN_ID": "", "MODAL_TOKEN_SECRET": SECRET}, ["MODAL_TOKEN_ID is empty", "MODAL_TOKEN_SECRET"]),
        ({}, {"MODAL_TOKEN_ID": "", "MODAL_TOKEN_SECRET": " "}, ["MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are empty"]),
    ],
)
def test_a_missing_half_is_named(
    monkeypatch: pytest.MonkeyPatch, config: Path, given: dict[str, str], variables: dict[str, str], words: list[str]
) -> None:
    """Which half is missing, and where the other one is, is said; halves of two places are never put together."""
    config.write_text('[default]\ntoken_id = "ak-file"\ntoken_secret = "as-file"\n')
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = refusal(options(**given))
    assert [word for word in words if word not in said] == []


def test_a_half_in_the_file_is_named(config: Path) -> None:
    """The file and its profile are named, too."""
    config.write_text(f'[default]\ntoken_id = "{ID}"\n')
    said = refusal(options())
    assert "token_secret is missing" in said and f"profile 'default' of {config}" in said


def test_no_token_at_all(config: Path) -> None:
    """Every place that was looked at is named, and how to make a token."""
    said = refusal(options())
    assert all(word in said for word in ("token_id", "MODAL_TOKEN_ID", str(config), "modal token new"))


def test_a_broken_file_does_not_show_its_content(config: Path) -> None:
    """A file that is no TOML is named, and no part of it is shown."""
    config.write_text(f'[default\ntoken_secret = "{SECRET}"\n')
    assert str(config) in refusal(options())


def test_a_broken_file_does_not_matter_when_it_is_not_needed(config: Path) -> None:
    """Options are enough by themselves."""
    config.write_text("[default")
    assert find(options(token_id=ID, token_secret=SECRET)).ident == ID
