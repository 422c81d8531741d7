"""Options of a backend from arguments, variables and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from hermes_env import BackendOptions, BaseEnvironment, InvalidArgument
from hermes_env._options import (
    is_secret,
    options_from_environment,
    options_from_file,
    parse_options,
    parse_value,
    variable_name,
)


class Login(BaseModel):
    password: SecretStr


class Options(BackendOptions):
    image: str | None = None
    token: SecretStr | None = None
    size: int = 1
    tags: tuple[str, ...] = ()
    login: Login | None = None


class Backend(BaseEnvironment):
    Options = Options


class Plain(BaseEnvironment):
    pass


def test_known_options_become_the_model() -> None:
    """Values are checked and converted; what is not given keeps its default."""
    parsed = parse_options(Backend, "b", {"image": "x", "tags": ["a"]})
    assert (parsed.image, parsed.tags, parsed.size) == ("x", ("a",), 1)
    assert parse_options(Plain, "p", {}) is None


@pytest.mark.parametrize(
    ("given", "argument", "words"),
    [
        ({"colour": "red"}, "option 'colour'", "knows: image, login, size, tags, token"),
        ({"size": "hunter2"}, "option 'size'", "integer"),
        ({"token": ["hunter2"]}, "option 'token'", "string"),
        ({"login": {"password": 1}}, "option 'login.password'", "string"),
    ],
)
def test_a_wrong_option_is_named_and_its_value_is_not_shown(given: dict[str, Any], argument: str, words: str) -> None:
    """The error names the option and what it must be, never the value, which may be a secret."""
    with pytest.raises(InvalidArgument) as caught:
        parse_options(Backend, "b", given)
    assert caught.value.argument == argument and words in str(caught.value)
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None


def test_a_backend_without_options_refuses_any() -> None:
    """An option for a backend that takes none is named."""
    with pytest.raises(InvalidArgument, match="'colour'"):
        parse_options(Plain, "p", {"colour": "red"})


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("12", int, 12),
        ("12", str, "12"),
        ("12", SecretStr | None, "12"),
        ("null", str | None, "null"),
        ("true", bool, True),
        ("yes", bool, "yes"),
        ("[1, 2]", list[int], [1, 2]),
        ('["a"]', str | tuple[str, ...], ["a"]),
        ("7", str | tuple[str, ...], "7"),
        ('{"a": 1}', SecretStr, '{"a": 1}'),
        ('{"a": 1}', Login | None, {"a": 1}),
        ("512m", int | str | None, "512m"),
        ("not json", dict[str, str], "not json"),
        ("12", Any, 12),
    ],
)
def test_text_becomes_what_its_field_takes(text: str, annotation: Any, value: Any) -> None:
    """A field for text keeps digits as text; others take JSON where it is JSON."""
    parsed = parse_value(text, annotation)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "option", "variable"),
    [("docker", "image", "HERMES_ENV_DOCKER_IMAGE"), ("my-box", "a_b", "HERMES_ENV_MY_BOX_A_B"),
     ("pkg.mod:Class", "x", "HERMES_ENV_PKG_MOD_CLASS_X")],
)  # fmt: skip
def test_names_of_variables_can_be_exported(name: str, option: str, variable: str) -> None:
    """Whatever a backend is called, its variables have names that a shell can set."""
    assert variable_name(name, option) == variable


def test_options_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only variables of known options count."""
    monkeypatch.setenv("HERMES_ENV_B_TOKEN", "123")
    monkeypatch.setenv("HERMES_ENV_B_SIZE", "5")
    monkeypatch.setenv("HERMES_ENV_B_COLOUR", "red")
    assert options_from_environment(Backend, "b") == {"token": "123", "size": 5}
    assert options_from_environment(Plain, "b") == {}


def test_options_from_files(tmp_path: Path) -> None:
    """TOML, or JSON in a file of that name."""
    (tmp_path / "o.toml").write_text('image = "x"\ntags = ["a"]\n')
    (tmp_path / "o.json").write_text('{"image": "y"}')
    assert options_from_file(str(tmp_path / "o.toml")) == {"image": "x", "tags": ["a"]}
    assert options_from_file(str(tmp_path / "o.json")) == {"image": "y"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.toml", "hunter2 hunter2"),
        ("a.json", "hunter2"),
        ("b.json", "[1]"),
        ("c.toml", "\udcff"),
        ("absent.toml", None),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: str | None) -> None:
    """A file that is missing or malformed is named, and its content is not shown."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidArgument) as caught:
        options_from_file(str(path))
    assert name in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "secret"), [("image", False), ("token", True), ("size", False), ("tags", False), ("login", True)]
)
def test_secrets_are_found_however_deep(option: str, secret: bool) -> None:
    """An option is a secret when its type, or a model inside it, holds one."""
    assert is_secret(Options.model_fields[option].annotation) is secret
