"""Faults in secrecy and in the life of an environment."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import replace
from typing import Any, ClassVar

from hermes_env import BackendOptions, Capabilities, EnvironmentGone, ExecResult, HermesEnvError, Unsupported
from hermes_env_local import LocalEnvironment

from ._broken import Broken, BrokenProcess, BrokenStart, mutant

logger = logging.getLogger("hermes_env.mutant")


@mutant("commands and variables in the log", "test_nothing_that_travels_is_logged")
class LogsCommands(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        logger.debug("exec %r %r", cmd, settings.get("env"))
        return super().exec(cmd, **settings)


@mutant("the command in the message of an error", "test_errors_do_not_tell_secrets")
class TellsInErrors(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        try:
            return super().exec(cmd, **settings)
        except HermesEnvError as error:
            error.args = (f"{cmd}: {error}", *error.args[1:])
            raise


class _Talkative(BrokenProcess):
    def __repr__(self) -> str:
        return f"Process({self.inner.wait().stdout!r})"


@mutant("output in a repr", "test_results_do_not_show_output_by_accident")
class ShowsOutput(BrokenStart):
    process = _Talkative


@mutant("an environment that is always alive", "test_an_open_environment_is_alive")
class AlwaysAlive(Broken):
    def alive(self) -> bool:
        return True


@mutant("a closed environment that goes on working", "test_a_closed_environment_refuses")
class WorksWhenClosed(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        try:
            return super().exec(cmd, **settings)
        except EnvironmentGone:
            with LocalEnvironment() as other:
                return other.exec(cmd, **settings)


@mutant("close leaves running commands", "test_close_ends_what_runs")
class CloseAbandons(Broken):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.started: list[Any] = []

    def start(self, cmd: Any, **settings: Any) -> Any:
        self.started.append(super().start(cmd, **settings))
        return self.started[-1]

    def close(self) -> None:
        if all(process.state != "dispatched" for process in self.started):
            super().close()


@mutant("close leaves a descriptor open", "test_close_gives_everything_back")
class CloseLeaks(Broken):
    def _close(self) -> None:
        os.open("/dev/null", os.O_RDONLY)


@mutant("every command leaves a descriptor open", "test_many_commands_do_not_pile_up")
class CommandLeaks(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        os.open("/dev/null", os.O_RDONLY)
        return super().exec(cmd, **settings)


@mutant("close ends the commands of other environments", "test_two_environments_do_not_disturb_each_other")
class CloseEndsAll(Broken):
    everything: ClassVar[list[Any]] = []

    def start(self, cmd: Any, **settings: Any) -> Any:
        process = super().start(cmd, **settings)
        self.everything.append(process)
        return process

    def _close(self) -> None:
        for process in self.everything:
            process.kill()
        self.everything.clear()


class _Joinable(Broken):
    capabilities = replace(LocalEnvironment.capabilities, reattach=True)
    hosts: ClassVar[dict[str, _Joinable]] = {}
    host: _Joinable | None = None

    def _open(self) -> None:
        super()._open()
        self.hosts[self._ident()] = self

    def _attach(self, ident: str) -> None:
        super()._open()
        self.host = self.hosts[ident]

    def _ident(self) -> str:
        return str(id(self.host or self))


@mutant("a guest that leaves takes the environment with it", "test_a_guest_finds_all_and_ends_nothing")
class GuestCloses(_Joinable):
    def _let_go(self) -> None:
        if self.host is not None:
            self.host.close()


@mutant("a guest that leaves ends the commands of its host", "test_a_guest_finds_all_and_ends_nothing")
class GuestKills(_Joinable):
    def _let_go(self) -> None:
        if self.host is not None:
            self.host._life.kill_all()


@mutant("who attaches gets another environment", "test_a_guest_finds_all_and_ends_nothing")
class GuestElsewhere(_Joinable):
    def _ident(self) -> str:
        return str(id(self))


@mutant(
    "the environment's own timeout forgotten",
    "test_the_environments_timeout_holds_for_every_command",
)
class ForgetsTimeout(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        self.timeout = None
        return super().exec(cmd, **settings)


@mutant("one error and nothing works any more", "test_every_error_leaves_it_usable")
class BreaksForGood(Broken):
    broken = False

    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        if self.broken:
            raise EnvironmentGone("an earlier error")
        try:
            return super().exec(cmd, **settings)
        except Unsupported:
            raise
        except HermesEnvError:
            self.broken = True
            raise


class _AnyOptions(BackendOptions):
    model_config: ClassVar[Any] = {**BackendOptions.model_config, "extra": "ignore"}
    inherit_env: bool = False


@mutant("unknown options ignored", "test_bad_options_are_refused_by_name")
class TakesAnyOption(Broken):
    Options: ClassVar[type[Any] | None] = _AnyOptions


@mutant("the caller's directory and variables changed", "test_the_callers_process_is_left_as_it_was")
class ChangesTheCaller(Broken):
    def exec(self, cmd: Any, **settings: Any) -> ExecResult:
        os.environ["HERMES_MUTANT"] = str(cmd)
        with contextlib.suppress(OSError):
            os.chdir("/")
        return super().exec(cmd, **settings)


@mutant("less declared than is there: a power is not refused", "test_powers_that_are_not_declared_are_refused")
class DeclaresNothing(Broken):
    capabilities = Capabilities(separate_stderr=True, half_close=True)

    def start(self, cmd: Any, **settings: Any) -> Any:
        settings.pop("live_stdin", None)
        return super().start(cmd, **settings)
