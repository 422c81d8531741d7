"""Faults in what runs, where, how often, and in how it ends."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hermes_env import (
    Channel,
    CommandCancelled,
    CommandTimeout,
    EnvironmentGone,
    ExecResult,
    KillReport,
    Launch,
)

from ._broken import Broken, BrokenProcess, BrokenStart, Spoiled, mutant


class _AlwaysZero(Spoiled):
    def exit_status(self) -> int:
        self.inner.exit_status()
        return 0


@mutant("the exit code lost", "test_exit_codes_come_back", "test_check_raises_with_the_result")
class LosesExitCode(Broken):
    channel = _AlwaysZero


class _MinusSignal(Spoiled):
    def exit_status(self) -> int:
        code = int(self.inner.exit_status())
        return code - 128 if code in (129, 137, 143) else code


@mutant("death by signal told as another number", "test_death_by_signal_is_128_and_its_number")
class SignalNumberOnly(Broken):
    channel = _MinusSignal


@mutant("a missing program told as a failure of the environment", "test_a_missing_program_is_127")
class MissingIsAnError(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        result = super().exec(cmd, **settings)
        if result.exit_code == 127 and result.stderr:
            raise EnvironmentGone("the command could not be started")
        return result


class _No126(Spoiled):
    def exit_status(self) -> int:
        code = int(self.inner.exit_status())
        return 127 if code == 126 else code


@mutant("126 and 127 told as one", "test_a_file_that_is_no_program_is_126", "test_exit_codes_come_back")
class NoPermissionCode(Broken):
    channel = _No126


@mutant(
    "an argv joined with spaces",
    "test_arguments_keep_their_boundaries",
    "test_nothing_in_an_argv_is_expanded",
)
class JoinsArgv(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        plain = not isinstance(cmd, str) and "-c" not in cmd[:3]
        return super().exec(" ".join(cmd) if plain or _is_law_argv(cmd) else cmd, **settings)


def _is_law_argv(cmd: Any) -> bool:
    return not isinstance(cmd, str) and len(cmd) > 10 and cmd[1] == "-c"


@mutant("the lines of a script joined with semicolons", "test_a_script_is_posix_sh")
class JoinsLines(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        return super().exec("; ".join(cmd.split("\n")) if isinstance(cmd, str) else cmd, **settings)


@mutant("a script cut at 128 KiB", "test_a_script_may_be_large")
class CutsScripts(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        return super().exec(cmd[: 128 << 10] if isinstance(cmd, str) else cmd, **settings)


@mutant("one shell for all commands: its state stays", "test_commands_do_not_share_state")
class KeepsShellState(Broken):
    state = "cd .; "

    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if isinstance(cmd, str) and cmd.startswith("cd /;"):
            self.state = "cd /; LEAK=1; export LEAK; "
        return super().exec(self.state + cmd if isinstance(cmd, str) else cmd, **settings)


@mutant("cwd ignored", "test_a_command_runs_in_its_directory", holds="test_exit_codes_come_back")
class IgnoresCwd(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        settings.pop("cwd", None)
        return super().exec(cmd, **settings)


@mutant(
    "a directory quoted by hand",
    "test_a_command_runs_in_its_directory",
)
class QuotesCwdByHand(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        cwd = settings.get("cwd")
        if cwd is not None and isinstance(cmd, str):
            settings["cwd"] = None
            cmd = f'cd "{cwd}" && {{ {cmd}\n}}'
        return super().exec(cmd, **settings)


@mutant(
    "a missing directory replaced by another",
    "test_a_directory_that_cannot_be_entered_runs_nothing",
)
class FallsBackToRoot(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        try:
            return super().exec(cmd, **settings)
        except (FileNotFoundError, NotADirectoryError):
            return super().exec(cmd, **{**settings, "cwd": "/"})


@mutant(
    "a relative directory resolved where the caller is",
    "test_a_relative_directory_starts_at_the_environments",
)
class CallersDirectory(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if settings.get("cwd") is not None:
            settings["cwd"] = os.path.abspath(settings["cwd"])
        return super().exec(cmd, **settings)


@mutant("values of variables trimmed", "test_variables_arrive_exactly")
class TrimsValues(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        settings["env"] = {name: value.strip() for name, value in (settings.get("env") or {}).items()}
        return super().exec(cmd, **settings)


@mutant("variables written into the script line by line", "test_a_value_is_never_run", "test_variables_arrive_exactly")
class SourcesValues(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        lines = [f"export {name}={value}" for name, value in (settings.pop("env", None) or {}).items()]
        return super().exec("\n".join([*lines, cmd]) if isinstance(cmd, str) else cmd, **settings)


@mutant("variables that stay for the next command", "test_variables_end_with_their_command")
class KeepsVariables(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        with contextlib.suppress(AttributeError):
            self.env.update({name: value for name, value in (settings.get("env") or {}).items() if name == "ONCE"})
        return super().exec(cmd, **settings)


@mutant("NULs and odd numbers repaired instead of refused", "test_what_cannot_be_carried_is_refused_by_name")
class RepairsArguments(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        cmd = cmd.replace("\0", "") if isinstance(cmd, str) else [part.replace("\0", "") for part in cmd]
        return super().exec(cmd, **settings)


@mutant("a power that is not declared quietly left out", "test_powers_that_are_not_declared_are_refused")
class IgnoresUser(Broken):
    def start(self, cmd: Any, **settings: Any) -> Any:
        settings.pop("user", None)
        return super().start(cmd, **settings)


@mutant("check ignored", "test_check_raises_with_the_result")
class IgnoresCheck(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        settings.pop("check", None)
        return super().exec(cmd, **settings)


@mutant("a command run again when it failed", "test_a_command_runs_once")
class RunsAgain(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        result = super().exec(cmd, **settings)
        return result if result.ok or not isinstance(cmd, str) else super().exec(cmd, **settings)


@mutant("a command run again when the link was lost", "test_a_command_runs_once")
class RunsAgainAfterLostLink(Broken):
    calls = 0

    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        result = super().exec(cmd, **settings)
        self.calls += 1
        lost = self.calls % 3 == 0 and "runs" in cmd
        return super().exec(cmd, **settings) if lost else result


@mutant(
    "stdin kept on the environment, not on the command",
    "test_commands_at_the_same_time_do_not_mix",
)
class SharesStdin(Broken):
    pending: Any = None

    def start(self, cmd: Any, **settings: Any) -> Any:
        if settings.get("stdin") is not None:
            self.pending = settings["stdin"]
            settings["stdin"] = self._late()
        return super().start(cmd, **settings)

    def _late(self) -> Iterator[bytes]:
        time.sleep(0.2)
        yield self.pending


class _NoDuration(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        return replace(self.inner.wait(timeout), duration=0.0)


@mutant("a duration that is made up", "test_a_result_knows_its_times_and_state")
class MakesUpDuration(BrokenStart):
    process = _NoDuration


class _KillingWait(BrokenProcess):
    def wait(self, timeout: float | None = None) -> ExecResult:
        try:
            return self.inner.wait(timeout)
        except TimeoutError:
            self.inner.kill()
            raise


@mutant("a wait that kills when it runs out", "test_a_wait_that_runs_out_kills_nothing")
class WaitKills(BrokenStart):
    process = _KillingWait


@mutant(
    "a timeout told as an exit code",
    "test_a_timeout_raises_with_the_output_so_far",
    "test_the_environments_timeout_holds_for_every_command",
)
class TimeoutIsMinusOne(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        try:
            return super().exec(cmd, **settings)
        except CommandTimeout as error:
            return replace(error.result, exit_code=-1, state="finished")


def _kill_leader(channel: Any, *, group: bool) -> KillReport | None:
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(channel.pid, signal.SIGKILL)
    return KillReport(1, confirmed=True)


@mutant(
    "only the first process killed: its children are orphaned",
    "test_a_timeout_ends_the_whole_tree",
    "test_a_kill_ends_the_whole_tree",
)
class KillsLeaderOnly(Broken):
    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        return _kill_leader(channel, group=False)


@mutant("only the process group killed: sessions of their own survive", "test_a_kill_ends_the_whole_tree")
class KillsGroupOnly(Broken):
    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        return _kill_leader(channel, group=True)


@mutant("a kill that ends every command", "test_a_kill_spares_other_commands")
class KillsEverything(BrokenStart):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.all: list[Any] = []

    def start(self, cmd: Any, **settings: Any) -> Any:
        process = super().start(cmd, **settings)
        self.all.append(process.inner)
        process.kill = lambda: [one.kill() for one in self.all]
        return process


@mutant("a timeout that closes the environment", "test_the_environment_survives_a_kill")
class TimeoutClosesAll(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        try:
            return super().exec(cmd, **settings)
        except CommandTimeout:
            self.close()
            raise


@mutant("terminate without a chance to clean up", "test_terminate_lets_a_command_clean_up")
class TerminateIsKill(Broken):
    def _kill(self, command_id: str, channel: Channel, grace: float) -> KillReport | None:
        return super()._kill(command_id, channel, 0.0)


class _EarlyKillLost(BrokenProcess):
    def kill(self) -> None:
        if self.inner.state == "dispatched" and time.monotonic() - self.born > 0.04:
            self.inner.kill()

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.born = time.monotonic()


@mutant("a kill lost while a command is on its way", "test_a_kill_right_after_start_is_safe")
class LosesEarlyKill(BrokenStart):
    process = _EarlyKillLost


class _KilledLater(BrokenProcess):
    killed = False

    def kill(self) -> None:
        self.inner.kill()
        self.killed = True

    def wait(self, timeout: float | None = None) -> ExecResult:
        result = self.inner.wait(timeout)
        if self.killed:
            raise CommandCancelled("cancelled", result)
        return result


@mutant("a kill that rewrites how a command ended", "test_a_kill_after_the_end_changes_nothing")
class KillRewritesHistory(BrokenStart):
    process = _KilledLater


@mutant(
    "values of variables in an argument",
    "test_variables_are_in_no_argument_list",
    "test_variables_of_the_environment_are_in_no_argument_list",
)
class VariablesInArgv(Broken):
    def start(self, cmd: Any, **settings: Any) -> Any:
        pairs = {**self.env, **(settings.pop("env", None) or {})}
        words = [f"{name}={value}" for name, value in pairs.items()]
        script = f"/usr/bin/env {' '.join(map(shlex.quote, words))} sh -c {shlex.quote(cmd)}; :"
        return super().start(script if words and isinstance(cmd, str) else cmd, **settings)


@mutant("an unknown user passed over, and the command run as the default one", "test_an_unknown_user_runs_nothing")
class IgnoresUsers(Broken):
    capabilities = replace(Broken.capabilities, users=True)


@mutant("arguments cut at a limit in bytes that was checked in characters", "test_wide_characters_count_by_their_bytes")
class CountsCharacters(Broken):
    def _launch(self, launch: Launch) -> Channel:
        short = tuple(arg.encode("utf-8", "surrogateescape")[:65_536].decode("utf-8", "ignore") for arg in launch.args)
        wide = [not arg.isascii() and len(arg) <= 65_536 for arg in launch.args]
        args = (new if is_wide else old for new, old, is_wide in zip(short, launch.args, wide, strict=True))
        return super()._launch(replace(launch, args=tuple(args)))
