"""Live stdin and callbacks at the edges of a command's life."""

from __future__ import annotations

import pytest

from hermes_env import BaseEnvironment, CommandCancelled


def test_end_of_file_at_once_does_not_overtake_what_goes_ahead(env: BaseEnvironment) -> None:
    """Closing stdin right after `start` ends the command's input, not what the framework sends before it."""
    for number in range(20):
        process = env.start('printf "%s|" "$N"; cat', env={"N": str(number)}, live_stdin=True)
        process.close_stdin()
        assert process.wait(60).stdout == b"%d|" % number


def test_writing_to_a_command_that_was_killed_is_a_broken_pipe(env: BaseEnvironment) -> None:
    """A kill right after `start`, whatever state it meets, leaves no writer waiting."""
    for _ in range(10):
        process = env.start(["cat"], live_stdin=True)
        process.kill()
        with pytest.raises(BrokenPipeError):
            process.write(b"late")
        with pytest.raises(CommandCancelled):
            process.wait(60)


@pytest.mark.parametrize("error", [BrokenPipeError("gone"), ConnectionResetError("gone"), ValueError("gone")])
def test_an_error_of_the_callback_is_raised_as_it_is(env: BaseEnvironment, error: Exception) -> None:
    """An error of `on_output` reaches the caller, also when it looks like a lost link."""

    def callback(stream: str, data: bytes) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        env.exec("echo now; sleep 1000", on_output=callback, timeout=60)
    assert caught.value is error
