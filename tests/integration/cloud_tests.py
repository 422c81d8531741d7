"""What holds for every cloud backend, as classes of tests: each backend's own test modules derive them."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import Any

import pytest

from hermes_env import BaseEnvironment, CommandCancelled, CommandTimeout, StagedEnvironment, StagingError, Unsupported
from tests.integration.clouds import Open, at_once, cancelled, ident, pids, staged
from tests.processes import showing
from tests.waiting import until

EVERY_BYTE = bytes(range(256))


class CommandTests:
    """Commands in a sandbox, on the emulator and live."""

    def test_every_byte_goes_in_and_comes_out_apart(self, env: BaseEnvironment) -> None:
        """Stdin arrives byte for byte, and so do both streams, each by itself."""
        result = env.exec("tee /dev/stderr; exit 3", stdin=EVERY_BYTE * 16)
        assert (result.exit_code, result.stdout, result.stderr) == (3, EVERY_BYTE * 16, EVERY_BYTE * 16)

    def test_odd_names_and_values_arrive(self, env: BaseEnvironment) -> None:
        """Arguments and variables of any bytes arrive as they are."""
        odd = "a\n'\"$(x) \udcff é"
        assert env.exec(["printf", "%s", odd]).stdout == odd.encode("utf-8", "surrogateescape")
        assert env.exec('printf %s "$ODD"', env={"ODD": odd}).stdout == odd.encode("utf-8", "surrogateescape")

    def test_a_timeout_keeps_what_was_written(self, env: BaseEnvironment) -> None:
        """A command over its deadline, also one of a fraction of a second, is killed and its output kept."""
        with pytest.raises(CommandTimeout) as caught:
            env.exec("echo partial; echo err >&2; sleep 600", timeout=2.5)
        assert (caught.value.result.stdout, caught.value.result.stderr) == (b"partial\n", b"err\n")
        assert caught.value.result.kill_unconfirmed is False

    def test_a_kill_ends_the_tree_and_nothing_else(self, env: BaseEnvironment) -> None:
        """A killed command takes its whole tree with it; another command and the sandbox go on."""
        other = env.start("until [ -e stop ]; do sleep 0.05; done; echo other")
        process = env.start("setsid sleep 601 & sleep 601 & : >up; wait")
        while not env.files.exists("up"):
            assert process.state != "finished"
        process.kill()
        with pytest.raises(CommandCancelled) as caught:
            process.wait(60)
        assert caught.value.result.kill_unconfirmed is False
        assert env.exec("pgrep -f 'sleep 60[1]' || echo none").text == "none\n"
        env.files.write_bytes("stop", b"")
        assert other.wait(60).text == "other\n"

    def test_a_background_child_does_not_hold_the_answer(self, env: BaseEnvironment) -> None:
        """A child that keeps stdout open is reported, not waited for."""
        result = env.exec("sleep 60 & echo hi", timeout=30)
        assert result.text == "hi\n" and result.held == ("stdout", "stderr")

    def test_another_user_is_refused(self, env: BaseEnvironment) -> None:
        """`user=` is refused before anything runs."""
        with pytest.raises(Unsupported):
            env.exec("id", user="nobody")

    def test_ten_commands_at_once_stay_apart(self, env: BaseEnvironment) -> None:
        """Commands of one sandbox that run at the same time get their own stdin, variables and output."""
        results: dict[int, bytes] = {}

        def one(number: int) -> None:
            results[number] = env.exec("cat; echo $N", stdin=b"%d " % number * 1000, env={"N": str(number)}).stdout

        at_once(one, range(10))
        assert results == {n: b"%d " % n * 1000 + b"%d\n" % n for n in range(10)}


def hold_apart(opened: Open, count: int, *, gathered: bool = False) -> None:
    """So many sandboxes, each with five commands at once, all give their own bytes.

    Args:
        opened: Opens a sandbox.
        count: How many are used at once.
        gathered: No command starts before every sandbox is open.
    """
    results: dict[tuple[int, int], bytes] = {}
    gate = threading.Barrier(count if gathered else 1)

    def use(number: int) -> None:
        env = opened()
        gate.wait()

        def command(index: int) -> None:
            results[number, index] = env.exec("cat", stdin=b"%d/%d " % (number, index) * 50).stdout

        at_once(command, range(5))

    at_once(use, range(count))
    wanted = {(number, index): b"%d/%d " % (number, index) * 50 for number in range(count) for index in range(5)}
    assert {key for key, value in wanted.items() if results.get(key) != value} == set()


class StagedCommandTests(CommandTests):
    """Commands whose stdin and output travel as private files."""

    def test_text_that_is_a_program_stays_data(self, env: BaseEnvironment) -> None:
        """Unread stdin that looks like shell is never run, and the script's lines are not eaten by its children."""
        result = env.exec("head -c 3\necho after", stdin=b"echo INJECTED; exit 77\n" * 1000)
        assert (result.exit_code, result.text) == (0, "echafter\n")


class CancellationTests:
    """Commands of a staged backend that are cancelled while the emulator holds one of their requests."""

    upload: str
    """The endpoint that takes stdin."""
    dispatch: str
    """The endpoint that runs a command."""
    erasure: str
    """The endpoint that files are erased by."""

    def test_an_upload_that_arrives_late_is_erased(self, faulty: Open, emulator: Any) -> None:
        """A request that was held when its command was cancelled may still write the file: it does not stay."""
        env = faulty()
        emulator.forget()
        emulator.fail(self.upload, "hold_before")
        cancelled(env, emulator, self.upload, "echo ran >>log", stdin=b"secret" * 1000)
        emulator.heal()
        until(lambda: emulator.counts(ident(env)).get(self.erasure, 0) >= 1)
        until(lambda: staged(env) == [])
        assert env.exec("cat log; :").text == ""

    def test_cancelled_while_the_answer_is_on_its_way(self, faulty: Open, emulator: Any) -> None:
        """A command that had ended when it was cancelled is over within seconds, whatever its lost answer said."""
        env = faulty()
        emulator.fail(self.dispatch, "hold_after")
        cancelled(env, emulator, self.dispatch, "echo ran >>log")
        emulator.release()
        assert env.exec("cat log").text == "ran\n"

    def test_a_deadline_during_a_stalled_upload(self, faulty: Open, emulator: Any) -> None:
        """The deadline of a command bounds the upload, too, and nothing is dispatched."""
        env = faulty()
        emulator.fail(self.upload, "hold_before")
        begin = time.monotonic()
        with pytest.raises(CommandTimeout):
            env.exec("true", stdin=b"x", timeout=0.5)
        assert time.monotonic() - begin < 20

    def test_closing_ends_what_runs(self, faulty: Open, emulator: Any) -> None:
        """Closing kills running commands and ends the sandbox; nothing of it is left."""
        env = faulty()
        process = env.start("sleep 600")
        until(lambda: process.state == "dispatched")
        name = ident(env)
        env.close()
        with pytest.raises(CommandCancelled):
            process.wait(60)
        assert name not in emulator.sandboxes()

    def test_many_cancellations_leave_nothing(self, faulty: Open, emulator: Any) -> None:
        """Commands cancelled at any moment leave neither files nor processes."""
        env = faulty()

        def one(delay: float) -> None:
            process = env.start("sleep 600", stdin=b"secret" * 5000)
            time.sleep(delay)
            process.kill()
            with pytest.raises(CommandCancelled):
                process.wait(60)

        at_once(one, [index * 0.01 for index in range(12)])
        until(lambda: pids(emulator, env) == [] and staged(env) == [])


class FaultTests:
    """Requests of a staged backend that go wrong."""

    upload: str
    """The endpoint that takes stdin."""
    dispatch: str
    """The endpoint that runs a command."""
    download: str
    """The endpoint that gives output."""
    endings: frozenset[str]
    """Endpoints that would stop the sandbox."""

    def test_an_sdk_error_never_stops_the_sandbox(self, faulty: Open, emulator: Any) -> None:
        """After failed uploads and dispatches the sandbox still runs, and so does a running command."""
        env = faulty()
        running = env.start("until [ -e go ]; do sleep 0.05; done; echo done")
        until(lambda: running.state == "dispatched")
        for fault in ((self.upload, "status", 500), (self.upload, "abort", 100), (self.dispatch, "status", 500)):
            # A request for the command that runs may meet the fault instead.
            assert any(self._fails(env, emulator, fault) for _ in range(5))
        env.exec(": >go")
        assert running.wait(60).text == "done\n"
        assert not self.endings & emulator.counts(ident(env)).keys()

    def _fails(self, env: BaseEnvironment, emulator: Any, fault: tuple[str, str, int]) -> bool:
        emulator.fail(*fault)
        try:
            env.exec("true", stdin=b"x" * 1000)
        except StagingError:
            return True
        return False

    def test_a_file_that_grows_while_it_is_fetched(self, faulty: Open, emulator: Any) -> None:
        """Output to which a background child still adds arrives as it was when the command ended."""
        env = faulty()
        emulator.fail(self.download, "hold_before")
        process = env.start(
            "dd if=/dev/zero bs=65536 count=200 2>/dev/null; (until [ -e go ]; do sleep 0.02; done; echo x) &"
        )
        emulator.wait_held(self.download)
        env.exec(": >go")
        emulator.release()
        result = process.wait(60)
        assert result.stdout == bytes(200 << 16) and result.held == ("stdout", "stderr")


class SecrecyTests:
    """What the service and other processes get to see of a staged backend."""

    def test_command_text_is_constant(self, faulty: Open, emulator: Any) -> None:
        """The service is given no script, argument, variable or stdin as command text."""
        env, canary = faulty(), secrets.token_hex(16)
        emulator.forget()
        env.exec(f"echo {canary}; cat", stdin=canary.encode(), env={"TOKEN": canary})
        env.exec(["echo", canary], cwd="/")
        env.files.write_bytes("f", canary.encode())
        texts = [str(entry["command"]) for entry in emulator.log() if "command" in entry]
        assert any(texts) and not any(canary in text for text in texts)

    def test_stdin_and_variables_are_in_no_argument_list(self, faulty: Open) -> None:
        """While a command runs, nothing shows its stdin or the values of its variables."""
        env, canary = faulty(), secrets.token_hex(16)
        process = env.start(
            ": >up; cat >/dev/null; until [ -e go ]; do sleep 0.02; done",
            stdin=canary.encode() * 9,
            env={"TOKEN": canary},
        )
        until(lambda: env.exec("[ -e up ]").ok)
        seen = showing(canary.encode())
        env.exec(": >go")
        process.wait(60)
        assert seen == []

    def test_the_private_directory_is_private_and_goes(self, faulty: Open) -> None:
        """The directory of staged files is 0700, stdin is unlinked before the command runs, and nothing stays."""
        env = faulty()
        assert isinstance(env, StagedEnvironment)
        home = env._area.home
        assert os.stat(home).st_mode & 0o777 == 0o700
        listing = env.exec(f"ls {home}; stat -L -c %h /proc/self/fd/0", stdin=b"secret").text
        assert not any(name.endswith((".in", ".sh")) for name in listing.split()) and listing.split()[-1] == "0"
        env._area.remove()
        assert not os.path.exists(home)
