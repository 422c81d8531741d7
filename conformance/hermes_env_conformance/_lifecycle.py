"""Chapter lifecycle: environments open, close and share a machine without leaving anything behind."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, EnvironmentGone, InvalidArgument, OutcomeUnknown

from ._check import equal, holds, same_bytes
from ._lab import UNTIL_GO
from ._law import law
from ._observe import observe

if TYPE_CHECKING:
    from ._lab import Lab

_FACTS = ("separate_stderr", "exact_stdout", "streaming", "half_close", "live_stdin", "users")


class LifecycleLaws:
    """From open to close, and what is there afterwards."""

    @law()
    def test_what_is_declared_is_true(self, lab: Lab) -> None:
        """Every fact and power that the environment declares is found when it is tried."""
        observed, declared = observe(lab.env), lab.env.capabilities
        untrue = [name for name in _FACTS if getattr(declared, name) and getattr(observed, name) is not True]
        equal("declared and not found", [], untrue)
        if declared.isolation != "none":
            equal("shares this machine's processes although isolated", False, observed.same_processes)

    @law()
    def test_an_open_environment_is_alive(self, lab: Lab) -> None:
        """An environment is alive when it was opened and not after it was closed; its end is a time with a zone."""
        env = lab.open()
        equal("alive after opening", True, env.alive())
        expires = env.expires_at
        holds(
            expires is None or (isinstance(expires, datetime) and expires.tzinfo is not None),
            f"expires_at is {expires!r}",
        )
        env.close()
        equal("alive after closing", False, env.alive())

    @law()
    def test_a_closed_environment_refuses(self, lab: Lab) -> None:
        """After close, which may be called again, every use raises EnvironmentGone."""
        with lab.open() as env:
            env.exec("true")
        env.close()
        env.close()
        for use in (lambda: env.exec("true"), lambda: env.start("true"), env.open):
            with pytest.raises(EnvironmentGone):
                use()

    @law()
    def test_close_ends_what_runs(self, lab: Lab) -> None:
        """Closing ends every running command with its children, and whoever waits for one is told."""
        mark, env = f"HERMES_LAW_{secrets.token_hex(8)}", lab.open()
        env.exec(["mkdir", "-p", lab.root], check=True)
        process = env.start("(sleep 600) & : >up; sleep 600", cwd=lab.root, env={mark: "1"})
        lab.until(lambda: env.exec(["test", "-e", lab.path("up")]).ok, "the command runs")
        waiting = threading.Thread(target=lambda: _swallow(lambda: process.wait(lab.patience)))
        waiting.start()
        with lab.soon("close"):
            env.close()
        with pytest.raises((CommandCancelled, OutcomeUnknown)):
            process.wait(lab.patience)
        waiting.join(lab.patience)
        equal("processes of it that are left on this machine", [], _with_variable(mark))

    @law()
    def test_close_gives_everything_back(self, lab: Lab) -> None:
        """Opening, using and closing leaves no descriptor, thread or child process in the caller."""
        _use(lab)
        gc.collect()
        before = _held()
        _use(lab)
        gc.collect()
        lab.until(lambda: all(now <= then for now, then in zip(_held(), before, strict=True)), _grown(before))

    @law()
    def test_many_commands_do_not_pile_up(self, lab: Lab) -> None:
        """Descriptors, threads and children do not grow with the number of commands."""
        lab.env.exec("true", stdin=b"x")
        before = _held()
        for index in range(lab.scale(10, 30, 200)):
            lab.env.exec("cat", stdin=b"x" * index)
            lab.env.start("true").wait(lab.patience)
        lab.until(lambda: all(now <= then for now, then in zip(_held(), before, strict=True)), _grown(before))

    @law()
    def test_two_environments_do_not_disturb_each_other(self, lab: Lab) -> None:
        """Closing one environment leaves the commands and files of another alone."""
        first, second = lab.open(), lab.open()
        second.exec(["mkdir", "-p", lab.root], check=True)
        process = second.start(f"cat; {UNTIL_GO}; cat kept", stdin=b"in ", cwd=lab.root)
        second.exec("echo kept >kept", cwd=lab.root, check=True)
        first.exec("true")
        first.close()
        second.exec(": >go", cwd=lab.root, check=True)
        same_bytes("stdout in the other", b"in kept\n", process.wait(lab.patience).stdout)

    @law("reattach")
    def test_a_guest_finds_all_and_ends_nothing(self, lab: Lab) -> None:
        """Who attaches by the ref finds its files and can add some; its close ends neither environment nor commands."""
        host = lab.open()
        host.exec(["mkdir", "-p", lab.root], check=True)
        kept, more = lab.path("kept"), lab.path("more")
        host.files.write_bytes(kept, b"\0 of the host")
        process = host.start(f"{UNTIL_GO}; cat more", cwd=lab.root)
        guest = lab.join(host)
        equal("ref of the guest", host.ref, guest.ref)
        same_bytes("a file as the guest reads it", b"\0 of the host", guest.files.read_bytes(kept))
        guest.files.write_bytes(more, b"\0 of the guest")
        guest.close()
        equal("alive after the guest has gone", [True, False], [host.alive(), guest.alive()])
        host.exec(": >go", cwd=lab.root, check=True)
        same_bytes("output of the host's command", b"\0 of the guest", process.wait(lab.patience).stdout)

    @law()
    def test_the_environments_timeout_holds_for_every_command(self, lab: Lab) -> None:
        """A timeout given when an environment is opened ends a command that has none, and a command's own wins."""
        env = lab.open(timeout=0.05)
        with lab.soon("the error"), pytest.raises(TimeoutError):
            env.exec("sleep 600")
        equal("with a longer timeout of its own", 0, env.exec("sleep 0.1", timeout=lab.patience).exit_code)

    @law()
    def test_every_error_leaves_it_usable(self, lab: Lab) -> None:
        """After refusals, failures and timeouts of every kind the next command works."""
        calls: list[Callable[[], object]] = [
            lambda: lab.env.exec("a\0b"),
            lambda: lab.env.exec("true", cwd="/no/such/directory"),
            lambda: lab.env.exec("exit 5", check=True),
            lambda: lab.env.exec("sleep 600", timeout=0.1),
            lambda: lab.env.exec("true", stdin=iter([1])),  # type: ignore[arg-type]  # what is refused
        ]
        for call in calls:
            with pytest.raises(Exception):  # noqa: B017, PT011 - each error has a law of its own
                call()
            same_bytes("the next command", b"ok", lab.env.exec("printf ok").stdout)

    @law()
    def test_bad_options_are_refused_by_name(self, lab: Lab) -> None:
        """An unknown option, or a setting of the wrong kind, is refused before anything is made."""
        for settings, word in (
            ({"no_such_option": 1}, "no_such_option"),
            ({"timeout": -1}, "timeout"),
            ({"env": {"A=B": "x"}}, "env"),
            ({"cwd": "a\0b"}, "cwd"),
        ):
            with pytest.raises(InvalidArgument) as caught:
                lab.open(**settings)
            holds(word in str(caught.value), f"the error does not name {word}: {caught.value}")

    @law()
    def test_the_callers_process_is_left_as_it_was(self, lab: Lab) -> None:
        """Signal handlers, directory, umask and variables of the caller are the same after use."""
        before = _process_wide()
        _use(lab)
        with pytest.raises(TimeoutError):
            lab.env.exec("sleep 600", timeout=0.1)
        after = _process_wide()
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        equal("what has changed", [], sorted(changed))


def _use(lab: Lab) -> None:
    with lab.bench.opener() as env:
        env.exec("cat", stdin=b"x" * 100_000)
        env.exec("cat", stdin=iter([b"x"]))
        env.start("echo x; sleep 600").kill()


def _swallow(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001 - only that it returns counts
        return


def _held() -> tuple[int, int, int]:
    """Open descriptors, threads and child processes of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(_children())


def _children() -> list[str]:
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                found += file.read().split()
        except OSError:
            continue
    return found


def _grown(before: tuple[int, int, int]) -> str:
    return f"descriptors, threads and children go back to {before}"


def _with_variable(name: str) -> list[str]:
    """Processes of this machine that have a variable of that name."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if name.encode() in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def _process_wide() -> dict[str, object]:
    """What a library must leave alone; values of variables are compared and never shown."""
    mask = os.umask(0o22)
    os.umask(mask)
    handlers = {
        name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)
    }
    variables = {f"variable {name}": value for name, value in os.environ.items()}
    return {"umask": mask, "cwd": os.getcwd(), "signal handlers": handlers, **variables}
