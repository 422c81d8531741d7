"""The text that goes through login shells, and the filter that takes our marks out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_env._command import Carriage, Command, prepare
from hermes_env_ssh._environment import SshEnvironment
from hermes_env_ssh._remote import COMMAND_LINE, GUARD_COMMAND, StreamFilter, greeting, guard_script, is_launcher

NONCE = "0123456789abcdef" * 2
START, END = f"\x1a{NONCE}+\n".encode(), f"\x1a{NONCE}-".encode()


def run(data: bytes, cuts: list[int]) -> tuple[bytes, StreamFilter]:
    """Feed the data in pieces."""
    stream, out, last = StreamFilter(NONCE), b"", 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        out += stream.feed(data[last:cut])
        last = cut
    return out + stream.flush(), stream


pieces = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([b"\x1a", START[:9], END[:-1], END[:5], b"\x1a\x1a", b"\n"])),
    max_size=8,
).map(b"".join)


@given(pieces, pieces, st.integers(0, 255), pieces, st.lists(st.integers(0, 400), max_size=12))
def test_only_the_commands_bytes_come_out(noise: bytes, data: bytes, status: int, late: bytes, cuts: list[int]) -> None:
    """Whatever the noise, the data and the cuts: the bytes between the marks and the status are exact."""
    sent = noise + START + data + END + b"%d\n" % status + late
    out, stream = run(sent, cuts)
    assert (out, stream.status, stream.started) == (data + late, status, True)


@given(pieces, st.lists(st.integers(0, 200), max_size=12))
def test_a_stream_that_is_cut_gives_all_that_came(data: bytes, cuts: list[int]) -> None:
    """Without the last mark nothing is swallowed and no status is invented."""
    out, stream = run(START + data, cuts)
    assert (out, stream.status) == (data, None)


@given(pieces)
def test_noise_alone_is_never_output(noise: bytes) -> None:
    """Without the first mark there is no output; the noise can be shown."""
    stream = StreamFilter(NONCE)
    assert stream.feed(noise[:3]) + stream.feed(noise[3:]) + stream.flush() == b""
    assert (stream.started, stream.noise) == (False, noise)


def test_a_line_of_a_live_command_is_not_held_back() -> None:
    """Text is passed on as it comes: only the very byte with which a mark begins can be kept waiting."""
    stream = StreamFilter(NONCE)
    assert stream.feed(START + b"line\n") == b"line\n"
    assert stream.feed(b"more\0") == b"more\0"
    assert stream.feed(NONCE.encode()) == NONCE.encode()


@pytest.mark.parametrize("line", [COMMAND_LINE, GUARD_COMMAND])
def test_every_login_shell_hands_the_text_on(line: bytes) -> None:
    """One line, ASCII, without what fish, csh or rc change inside single quotes."""
    assert line.isascii()
    assert line.count(b"'") == 2
    assert not any(bad in line for bad in (b"\n", b"!", b"\\\\", b"\0"))


def test_the_greeting_is_lines() -> None:
    """Each of the two is read by one `read`."""
    assert greeting(NONCE, "tag").count(b"\n") == 2


def test_the_launcher_of_the_framework_is_the_one_that_waits() -> None:
    """What a session makes ready ahead is what the framework would have started."""
    command = Command("true")
    carriage = Carriage(env=False, cwd=False, raw_bytes=False)
    assert is_launcher(prepare(command, carriage, SshEnvironment.capabilities).launch.script)


def test_the_guard_script_is_one_line() -> None:
    """It is read by one `read`."""
    assert guard_script("f" * 32).count(b"\n") == 1
