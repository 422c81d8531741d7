"""The sh text that starts commands, run by every shell that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_env import _shell
from hermes_env._codec import decode_lossless

NONCE = "0123456789abcdef0123456789abcdef"
ANY_BYTES = decode_lossless(bytes(range(1, 256)))
SHELLS: dict[str, list[str]] = {
    "dash": ["dash"],
    "bash": ["bash"],
    "bash --posix": ["bash", "--posix"],
    "busybox sh": ["busybox", "sh"],
    "mksh": ["mksh"],
    "ksh": ["ksh"],
    "zsh --emulate sh": ["zsh", "--emulate", "sh"],
    "yash": ["yash"],
}
ASCII_ONLY = frozenset({"yash"})
"""yash decodes its input by the locale and drops what is no text there, so only ASCII arrives in it."""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """The command line of a shell that is installed."""
    command = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def call(shell: Sequence[str], script: str, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run sh text with these positional parameters and a minimal environment."""
    return subprocess.run(
        [*shell, "-c", script, "sh", *args],
        input=stdin,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        timeout=60,
        check=False,
    )


def carried(shell: Sequence[str], script: str, args: Sequence[str], env: dict[str, str], payload: bytes) -> bytes:
    """stdout of a script that travelled on stdin, ahead of its payload."""
    head = _shell.prelude(script, args, env, NONCE)
    assert head.isascii()
    done = call(shell, _shell.LAUNCHER, NONCE, stdin=head + payload)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def hard(shell: Sequence[str]) -> str:
    """The hardest text that reaches a program through this shell."""
    return ANY_BYTES if shell[0] not in ASCII_ONLY else "".join(map(chr, range(1, 128)))


def test_arguments_and_variables_of_any_bytes_arrive(shell: list[str]) -> None:
    """Every byte from 1 to 255 arrives in an argument and in a variable, and the payload follows untouched."""
    text = hard(shell)
    payload = bytes(range(256)) * 1024
    script = 'printf "%s|" "$#" "$@"; env printf "%s|" "$V"; exec cat'
    args = ["", text, "two words", "-n", "*", "\n", "a\n\n", "\\0101", "%s"]
    got = carried(shell, script, args, {"V": text, "EMPTY": ""}, payload)
    expected = "|".join([str(len(args)), *args, text, ""]).encode("utf-8", "surrogateescape")
    assert got == expected + payload


def test_variables_reach_programs(shell: list[str]) -> None:
    """A variable of the prelude is exported, also an empty one and one that ends in line ends."""
    text = hard(shell) + "\n\n"
    got = carried(shell, "exec env -0", [], {"V": text, "EMPTY": ""}, b"")
    found = dict(entry.split(b"=", 1) for entry in got.split(b"\0") if b"=" in entry)
    assert found[b"V"] == text.encode("utf-8", "surrogateescape")
    assert found[b"EMPTY"] == b""


def test_no_helper_variable_is_left(shell: list[str]) -> None:
    """What carried the arguments is not seen by the script."""
    script = 'printf "%s" "${_a1-unset}"'
    odd = "é" if shell[0] not in ASCII_ONLY else "e"
    assert carried(shell, script, [odd], {}, b"") == b"unset"


@pytest.mark.parametrize("cut", [0, 1, 20, -2])
def test_a_stream_cut_before_the_nonce_runs_nothing(shell: list[str], cut: int) -> None:
    """When the link breaks inside the prelude not even a part of the script runs."""
    head = _shell.prelude("echo ran\necho ran twice", ["arg"], {"V": "v"}, NONCE)
    done = call(shell, _shell.LAUNCHER, NONCE, stdin=head[:cut])
    assert (done.returncode, done.stdout) == (_shell.GUARD_STATUS, b"")


def test_a_script_that_holds_something_like_the_nonce(shell: list[str]) -> None:
    """Only a line that is the nonce and nothing else ends the prelude."""
    script = f"# {NONCE}\n# x{NONCE}\nprintf '%s|' {NONCE}x ' {NONCE}'"
    assert carried(shell, script, [], {}, b"") == f"{NONCE}x| {NONCE}|".encode()


def test_a_large_script_travels_on_stdin(shell: list[str]) -> None:
    """A script over every argument limit arrives whole."""
    script = "".join(f"v{number}={'x' * 100}\n" for number in range(1300)) + 'printf "%s" "$v1299"; exec cat'
    assert carried(shell, script, [], {}, b"payload") == b"x" * 100 + b"payload"


@pytest.mark.parametrize("name", ["plain", "two words", "-dash", "new\nline", "'quoted'", "$HOME", "*", "ünï"])
def test_a_directory_is_entered_whatever_its_name(
    shell: list[str], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The guard enters a directory of any name and runs the command there."""
    if shell[0] in ASCII_ONLY and not name.isascii():
        pytest.skip(f"{shell[0]} takes ASCII only")
    folder = tmp_path_factory.mktemp("cwd") / name
    folder.mkdir()
    done = call(shell, _shell.ENTER + _shell.run(merge_stderr=False), NONCE, str(folder), "/bin/pwd")
    assert done.stdout == os.fsencode(folder) + b"\n"


@pytest.mark.parametrize(("kind", "word"), [("absent", "missing"), ("file", "notdir")])
def test_a_directory_that_cannot_be_entered_is_reported(
    shell: list[str], kind: str, word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The guard reports why with the nonce and its status, and the command does not run."""
    folder = tmp_path_factory.mktemp("cwd")
    (folder / "file").write_bytes(b"")
    done = call(shell, _shell.ENTER + "echo ran", NONCE, str(folder / kind))
    assert (done.returncode, done.stdout) == (_shell.GUARD_STATUS, b"")
    assert done.stderr == f"{NONCE} {word}\n".encode()


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_payload_of_known_size_ends_by_length(shell: list[str], size: int) -> None:
    """With half-close lost the command sees end-of-file after exactly its bytes, though stdin stays open."""
    payload = (bytes(range(256)) * 800)[:size]
    done = call(shell, _shell.run_framed(size, "nonce", merge_stderr=False), "cat", stdin=payload)
    assert (done.returncode, done.stdout) == (0, payload)


@pytest.mark.parametrize("sizes", [[], [1], [65_536, 1], [65_537, 3, 131_073], [10] * 30])
def test_a_payload_in_frames_comes_out_whole(shell: list[str], sizes: list[int]) -> None:
    """Frames of any length become their contents, and the end mark becomes end-of-file."""
    chunks = [(bytes(range(256)) * 600)[:size] for size in sizes]
    wire = b"".join(_shell.frames(chunks)) + b"not part of it"
    done = call(shell, _shell.run_framed(None, "nonce", merge_stderr=False), "cat", stdin=wire)
    assert (done.returncode, done.stdout) == (0, b"".join(chunks))


def test_streams_are_merged_on_request(shell: list[str]) -> None:
    """With merge_stderr both streams arrive on stdout, in order."""
    script = ("sh", "-c", "echo one; echo two >&2; echo three")
    for text in (_shell.run(merge_stderr=True), _shell.run_framed(0, "nonce", merge_stderr=True)):
        done = call(shell, text, *script)
        assert (done.stdout, done.stderr) == (b"one\ntwo\nthree\n", b"")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=12).map(lambda data: decode_lossless(data.replace(b"\0", b"\1"))), max_size=5))
def test_quoting_round_trips(args: list[str]) -> None:
    """Any arguments survive being written as sh text."""
    text = f'{_shell.assign_args(args)}\nprintf \'%s|\' "$#" "$@"'
    assert text.isascii()
    done = call(["sh"], text)
    assert done.stdout == "|".join([str(len(args)), *args, ""]).encode("utf-8", "surrogateescape")
