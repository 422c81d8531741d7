"""Arguments that no environment can carry are refused by name, before anything runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hermes_env import InvalidArgument
from hermes_env._validate import (
    MAX_ARGUMENT,
    check_command,
    check_env,
    check_path,
    check_size,
    check_text,
    check_timeout,
)

STRAY = "a\ud800b"
"""Half a surrogate pair: no bytes stand for it."""
ESCAPED = b"\xff\x80".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "text", ["", "plain", "ünïcode 😀", "line\nline\r\n\t", ESCAPED, "".join(map(chr, range(1, 128)))]
)
def test_text_of_any_bytes_but_nul_passes(text: str) -> None:
    """What a process argument can hold is returned as it is."""
    assert check_text("x", text) == text


@pytest.mark.parametrize(
    ("value", "words"), [("a\0b", "NUL"), (STRAY, "U+D800 at index 1"), (b"bytes", "str"), (None, "str")]
)
def test_text_that_cannot_be_carried(value: Any, words: str) -> None:
    """NUL, a stray surrogate and what is no text are refused, naming the argument."""
    with pytest.raises(InvalidArgument, match="stdin-of-x: ") as caught:
        check_text("stdin-of-x", value)
    assert words in str(caught.value)
    assert caught.value.argument == "stdin-of-x"


@pytest.mark.parametrize(
    "cmd", ["", "exit 3", ["true"], ("printf", "%s", ""), ["./-x", "-y"], ["a", "b" * MAX_ARGUMENT]]
)
def test_commands_that_pass(cmd: Any) -> None:
    """A script stays text; an argv becomes a tuple of the same parts."""
    assert check_command(cmd) == (cmd if isinstance(cmd, str) else tuple(cmd))


@pytest.mark.parametrize(
    ("cmd", "argument"),
    [
        ("echo \0", "cmd"),
        (STRAY, "cmd"),
        (b"true", "cmd"),
        (7, "cmd"),
        (None, "cmd"),
        ([], "cmd"),
        ([""], "cmd"),
        (["-x"], "cmd[0]"),
        (["true", "a\0"], "cmd[1]"),
        (["true", STRAY], "cmd[1]"),
        (["true", b"x"], "cmd[1]"),
        (["true", "", "x" * (MAX_ARGUMENT + 1)], "cmd[2]"),
        (["true", "é" * (MAX_ARGUMENT // 2 + 1)], "cmd[1]"),
    ],
)
def test_commands_that_are_refused(cmd: Any, argument: str) -> None:
    """The error names the part of the command that is wrong; its length is counted in bytes."""
    with pytest.raises(InvalidArgument) as caught:
        check_command(cmd)
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "A\n", "Ä", "A=B", "A\0", 7])
def test_names_of_variables_that_shells_drop(name: Any) -> None:
    """A name that is no identifier is refused; some shells would lose the variable without a word."""
    with pytest.raises(InvalidArgument, match="identifier"):
        check_env({name: "value"})


@pytest.mark.parametrize("value", ["hunter2\0", "hunter2" + STRAY, b"hunter2", 5, None])
def test_values_of_variables_are_never_shown(value: Any) -> None:
    """A value that cannot be carried is refused by the name of its variable only."""
    with pytest.raises(InvalidArgument) as caught:
        check_env({"TOKEN": value})
    assert caught.value.argument == "env['TOKEN']"
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None


def test_variables_that_pass() -> None:
    """Any identifier with a value of any bytes but NUL is kept; no mapping is an empty one."""
    env = {"_": "", "A1_b": "line\nline", "odd": ESCAPED}
    assert check_env(env) == env
    assert check_env(None) == {}


@pytest.mark.parametrize("path", ["", "a\0", STRAY, b"/tmp", None])
def test_paths_that_are_refused(path: Any) -> None:
    """An empty path and one that no file can have are refused."""
    with pytest.raises(InvalidArgument) as caught:
        check_path("cwd", path)
    assert caught.value.argument == "cwd"


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, -math.inf, "5", True, b"1"])
def test_timeouts_that_are_refused(timeout: Any) -> None:
    """A timeout is a number of seconds that is not negative."""
    with pytest.raises(InvalidArgument, match="timeout"):
        check_timeout("timeout", timeout)


@pytest.mark.parametrize(("given", "taken"), [(None, None), (0, 0.0), (1.5, 1.5), (math.inf, None)])
def test_timeouts_that_pass(given: float | None, taken: float | None) -> None:
    """None and infinity are no limit."""
    assert check_timeout("timeout", given) == taken


@pytest.mark.parametrize("size", [-1, 1.0, True, "1", None])
def test_sizes_that_are_refused(size: Any) -> None:
    """A size is an int that is not negative."""
    with pytest.raises(InvalidArgument, match="limit"):
        check_size("limit", size)


def test_sizes_that_pass() -> None:
    """Zero and more."""
    assert (check_size("limit", 0), check_size("limit", 1 << 40)) == (0, 1 << 40)
