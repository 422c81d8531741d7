"""One command with a secret in all that it carries, and what must be true of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes_env import HermesEnvError

from ._check import equal, holds, same_bytes
from ._lab import UNTIL_GO
from ._watch import canary, files_with

if TYPE_CHECKING:
    from hermes_env import Process

    from ._faults import Fault, Faults, Kind, Step
    from ._lab import Lab

_RUNS = "cat runs 2>/dev/null | wc -l"
_OVER = """
for d in PLACES; do : >"$d/go"; done
sleep PAUSE
for d in PLACES; do cd "$d" || exit; [ ! -e on ] || echo on; RUNS; done
"""
_BEFORE = ("new", "staging", "staged")


@dataclass
class Trials:
    """Commands of one law, one after the other, beside a neighbour that must never notice."""

    lab: Lab
    faults: Faults
    secret: str = field(default_factory=lambda: canary().decode())
    _neighbour: Process | None = None
    _count: int = 0

    def begin(self) -> None:
        """Start the neighbour, and note the time from which files are looked at."""
        body = f": >up; {UNTIL_GO.replace('go', 'home')}; echo survived"
        self._neighbour = self.lab.env.start(body, cwd=self.lab.root)
        back = "touch -d @$(($(date +%s)-2)) mark 2>/dev/null || { : >mark; sleep 1.1; }"
        self.lab.sh(f"umask 077; cat >needle; {back}; mkdir 1 2 3 4 5 6 7; echo kept >kept", stdin=self.secret.encode())
        # Only when it runs: a fault that is armed earlier could strike the neighbour itself on its way.
        up = ["test", "-e", self.lab.path("up")]
        self.lab.until(lambda: self.lab.env.exec(up).ok, "the neighbour runs")

    def trial(self, fault: Fault | None = None) -> Trial:
        """The next command."""
        self._count += 1  # `begin` has made the directory
        place = self.lab.path(str(self._count))
        return Trial(self, place, fault)

    def armed(self, *steps: Step, kind: Kind = "hold") -> list[tuple[Step, Callable[[], Trial]]]:
        """The steps that can go wrong in that way here; the law does not apply where there are none."""
        found: list[tuple[Step, Callable[[], Trial]]] = []
        for step in steps:
            probe = self.faults.arm(step, kind)
            if probe is not None:
                self.faults.disarm(probe)
                found.append((step, partial(self._armed_trial, step, kind)))
        self.lab.skip_unless(found, f"no way to make {' or '.join(steps)} go wrong by {kind!r}")
        return found

    def _armed_trial(self, step: Step, kind: Kind) -> Trial:
        return self.trial(self.faults.arm(step, kind))

    @contextmanager
    def all_fail(self) -> Iterator[None]:
        """Every request that a command would make in the block fails; none may be made."""
        steps: tuple[Step, ...] = ("stdin", "script", "launch")
        armed = [fault for step in steps if (fault := self.faults.arm(step, "refuse")) is not None]
        yield
        for fault in armed:
            holds(not fault.struck.is_set(), "a request was made for a command that had ended")
            self.faults.disarm(fault)

    def end(self) -> None:
        """Demand that nothing else was touched and that no file holds the secret."""
        self.faults.end()
        lab, neighbour = self.lab, self._neighbour
        assert neighbour is not None
        same_bytes("the neighbour's file", b"kept\n", lab.sh(": >home; cat kept").stdout)
        left: set[str] = set()
        end = time.monotonic() + lab.patience
        while (left := files_with(lab)) and time.monotonic() < end:
            time.sleep(0.1)  # A late upload is erased with the next command.
        equal("files that hold the secret", set(), left)
        if lab.env.capabilities.kill_scope == "command":
            same_bytes("stdout of the neighbour", b"survived\n", neighbour.wait(lab.patience).stdout)

    def expect_never_dispatched(self, *ended: Trial) -> None:
        """Demand that none goes on, that those not dispatched yet never ran, and that the next command works."""
        self.expect_over(*((trial, 0, 0 if trial.state in _BEFORE else 1) for trial in ended))

    def expect_over(self, *ended: tuple[Trial, int, int]) -> None:
        """Demand that no trial goes on, that each ran at least and at most so often, and that the next works."""
        lab = self.lab
        places = " ".join(trial.place for trial, _, _ in ended)
        # Half a moment, and a turn of its loop, is enough for a command that lives to see `go` and leave its sign.
        script = _OVER.replace("PLACES", places).replace("RUNS", _RUNS)
        seen = lab.sh(script.replace("PAUSE", f"{lab.while_longer:.2f}")).text.split()
        holds("on" not in seen, "the command went on after it was cancelled")
        for (_, least, most), runs in zip(ended, seen, strict=True):
            holds(least <= int(runs) <= most, f"it ran {runs} times; {least} to {most} were right")
        same_bytes("the next command", b"next", lab.env.exec("cat", stdin=b"next").stdout)


@dataclass
class Trial:
    """One command."""

    among: Trials
    place: str
    fault: Fault | None
    process: Process | None = None
    state: str = "new"
    """Where it was when it was cancelled."""

    @property
    def lab(self) -> Lab:
        """The law's means."""
        return self.among.lab

    @property
    def secret(self) -> str:
        """What everything about it holds."""
        return self.among.secret

    def start(self, body: str = UNTIL_GO, *, stdin: Any = True, **settings: Any) -> Process:
        """Start it: it signs when it runs, reads its stdin, does what `body` says, and signs again."""
        script = f"echo ran >>runs; cat >/dev/null; : >started; {body}; : >on; : {self.secret}"
        data = iter([self.secret.encode() * 40]) if stdin is True else stdin
        settings.setdefault("env", {"TOKEN": self.secret})
        self.process = self.lab.env.start(script, stdin=data, cwd=self.place, **settings)
        return self.process

    def strike(self) -> None:
        """Wait until the fault has struck, or the command is over without."""
        process, fault = self.process, self.fault
        assert process is not None and fault is not None
        self.lab.until(
            lambda: fault.struck.is_set() or process.state not in (*_BEFORE, "dispatched"),
            "the command comes by the step that goes wrong",
        )

    def cancel(self) -> None:
        """Kill it, and let go soon what is held."""
        process = self.process
        assert process is not None
        self.state = process.state
        if self.fault is None:
            process.kill()
        else:
            self.lab.together([process.kill, self.release_soon])

    def release_soon(self) -> None:
        """Let go what is held when the kill is under way."""
        time.sleep(0.05)
        self.release()

    def release(self) -> None:
        """Let go what is held; late work lands."""
        if self.fault is not None:
            self.fault.release()

    def landed(self) -> None:
        """Let go what is held and wait until it has landed."""
        fault = self.fault
        assert fault is not None
        fault.release()
        self.lab.until(fault.landed.is_set, "the late work lands")

    def outcome(self) -> BaseException | None:
        """The error by which the command ended."""
        assert self.process is not None
        try:
            self.process.wait(self.lab.patience)
        except (HermesEnvError, OSError, ArithmeticError) as error:
            holds(
                not isinstance(error, TimeoutError) or isinstance(error, HermesEnvError),
                f"nothing came of the command within {self.lab.patience:g} s",
            )
            return error
        return None

    def runs(self) -> int:
        """How often it has run."""
        return int(self.lab.sh(_RUNS, cwd=self.place).stdout)

    def until_started(self) -> None:
        """Wait until it runs and has read its stdin."""
        self.lab.until(self.has_started, "the command runs")

    def has_started(self) -> bool:
        """Whether it ran and has read its stdin."""
        return self.lab.env.exec(["test", "-e", f"{self.place}/started"]).ok

    def expect_over(self, *, most: int = 1, least: int = 0) -> None:
        """Demand that it does not go on, ran so often, and that the next command works."""
        self.among.expect_over((self, least, most))

    def expect_never_dispatched(self) -> None:
        """As `expect_over`; a command that had not been dispatched has not run at all."""
        self.among.expect_never_dispatched(self)

    def expect_runs(self, *, most: int = 1, least: int = 0) -> None:
        """Demand how often it ran, and that the next command works."""
        runs = self.runs()
        holds(least <= runs <= most, f"it ran {runs} times; {least} to {most} were right")
        same_bytes("the next command", b"next", self.lab.env.exec("cat", stdin=b"next").stdout)


@contextmanager
def trials(lab: Lab) -> Iterator[Trials]:
    """Commands that go wrong; afterwards all must be as it was."""
    found = Trials(lab, lab.faults())
    try:
        found.begin()
        yield found
        found.end()
    finally:
        found.faults.end()


def expect_error(
    error: BaseException | None, kinds: type[BaseException] | tuple[type[BaseException], ...], what: str = "it"
) -> None:
    """Demand that a command ended by an error of one of these kinds."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    names = " or ".join(kind.__name__ for kind in wanted)
    came = "a result" if error is None else f"{type(error).__name__}: {error}"
    holds(isinstance(error, kinds), f"{what} must end by {names}, not by {came}")
