"""What a law works with: an open environment, a private directory in it, cases, and ways to look."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from . import _check, _corpus
from ._faults import Faults, HookFaults
from ._law import NOT_APPLICABLE, Hung, within
from ._oracle import Oracle, dump

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment, ExecResult

WORKSPACE = "/tmp"  # noqa: S108 - inside the environment, where the laws make private directories of their own
TURN = 0.02
"""Seconds between two looks of a script that waits for a file."""
UNTIL_GO = f"n=0; while [ ! -e go ] && [ $n -lt 5000 ]; do n=$((n+1)); sleep {TURN}; done"
"""Script that waits for the file ``go``, two minutes at most: what a failing law leaves behind ends by itself."""
_ROOMS = 16
_CLOSE = 10.0
"""Seconds for an environment to close; one that takes longer is left behind."""
_FILL = r"""
umask 077; : >"$1"; [ "$2" -gt 0 ] || exit 0
printf FORMAT >"$1.block"
n=$(wc -c <"$1.block"); set -- "$1" "$2" "$1.block"
while [ "$n" -lt "$2" ]; do
  cat "$3" "$3" "$3" "$3" "$3" "$3" "$3" "$3" >"$3.8" || exit 1
  set -- "$1" "$2" "$3.8"; n=$((n*8))
done
head -c "$2" <"$3" >"$1" && rm -f "$1".block*
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """How thoroughly and how patiently a suite runs."""

    profile: _corpus.Profile = "default"
    patience: float = 30.0
    """Seconds within which something that has to happen must have happened."""
    workspace: str = WORKSPACE
    """Directory inside the environment where the laws may work."""

    @property
    def deadline(self) -> float:
        """Seconds after which a law is taken to hang."""
        return self.patience * {"quick": 2, "default": 4, "full": 16}[self.profile]


class Bench:
    """One environment that the laws of a class share; replaced when a law has made it unusable."""

    def __init__(
        self,
        opener: Callable[..., BaseEnvironment],
        oracle: Oracle,
        settings: Settings,
        first: BaseEnvironment | None = None,
        faults: Callable[[BaseEnvironment], Faults] = HookFaults,
    ) -> None:
        self.opener, self.oracle, self.settings, self.faults = opener, oracle, settings, faults
        self._env = first
        self._base: str | None = None
        self._moment: float | None = None
        self._rooms: list[str] = []
        self._left: list[str] = []

    @property
    def env(self) -> BaseEnvironment:
        """The shared environment, opened when it is first needed."""
        if self._env is None:
            self._env = self.opener()
        return self._env

    @property
    def base(self) -> str:
        """The directory, inside the environment, that holds the laws' private ones."""
        if self._base is None:
            base = f"{self.settings.workspace.rstrip('/')}/hermes-conformance-{secrets.token_hex(6)}"
            _demand(self.env.exec(f"mkdir -m 700 {base}"), f"make the working directory {base}")
            self._base = base
        return self._base

    def room(self) -> str:
        """A directory, inside the environment, that nobody has used; some are made at once."""
        if not self._rooms:
            rooms = [f"{self.base}/{secrets.token_hex(4)}" for _ in range(_ROOMS)]
            _demand(self.env.exec(["mkdir", "-m", "700", *rooms]), "make directories for the laws")
            self._rooms = rooms
        return self._rooms.pop()

    @property
    def moment(self) -> float:
        """Seconds that are enough for a command to start and do a little: some times what one takes here."""
        if self._moment is None:
            start = time.monotonic()
            self.env.exec("true")
            self._moment = 0.05 + 15 * (time.monotonic() - start)
        return self._moment

    def abandon(self) -> None:
        """Never use this environment again; closing it may hang too."""
        env, self._env = self._env, None
        self._moment = None
        self._rooms.clear()
        if self._base is not None:
            self._left.append(self._base)
            self._base = None
        if env is not None:
            with contextlib.suppress(Exception):
                within(_CLOSE, env.close)

    def replace_if_gone(self) -> None:
        """A law may have closed or lost the environment: the next one gets another."""
        if self._env is not None and not self._env.alive():
            self.abandon()

    def close(self) -> None:
        """Remove what the laws left and close the environment."""
        if self._env is None:
            return
        left = [*self._left, *([] if self._base is None else [self._base])]
        if left and self._env.alive():
            self._env.exec(["rm", "-rf", "--", *left], timeout=self.settings.deadline)
        env, self._env = self._env, None
        within(self.settings.deadline, env.close)


def _demand(result: ExecResult, what: str) -> None:
    if not result.ok:
        problem = f"exit code {result.exit_code}, stderr {_check.short(result.stderr)}"
        raise _check.LawBroken(f"cannot {what}: {problem}")


@dataclass
class Lab:
    """One law's view of the bench."""

    bench: Bench
    name: str
    _root: str | None = None
    _opened: list[BaseEnvironment] = field(default_factory=list)
    _closers: list[Callable[[], None]] = field(default_factory=list)

    # -- what there is --------------------------------------------------------------------------------------------

    @property
    def env(self) -> BaseEnvironment:
        """The environment under test."""
        return self.bench.env

    @property
    def settings(self) -> Settings:
        """Profile and patience."""
        return self.bench.settings

    @property
    def patience(self) -> float:
        """Seconds within which something that has to happen must have happened."""
        return self.settings.patience

    @property
    def deadline(self) -> float:
        """Seconds after which this law is taken to hang."""
        return self.settings.deadline

    @property
    def moment(self) -> float:
        """Seconds that are enough for a command to start and do a little."""
        return self.bench.moment

    @property
    def while_longer(self) -> float:
        """Seconds in which a command that still waits for a file would have seen it, and left its sign."""
        return TURN + self.moment / 2

    def deadlines(self) -> Iterator[float]:
        """Seconds to try as a command's deadline, each longer than the last, until it gets far enough in that time."""
        yield from (self.moment * factor for factor in (1, 3, 9))

    @property
    def root(self) -> str:
        """A directory inside the environment that only this law uses."""
        if self._root is None:
            self._root = self.bench.room()
        return self._root

    def path(self, name: str) -> str:
        """Absolute path of a name in the law's directory."""
        return f"{self.root}/{name}"

    def scale(self, quick: int, default: int, full: int) -> int:
        """A number that depends on the profile."""
        return {"quick": quick, "default": default, "full": full}[self.settings.profile]

    def examples(
        self, quick: int, default: int, full: int, *, steps: int = 50, shrink: bool = False
    ) -> hypothesis.settings:
        """Hypothesis settings: the same examples in every run, and no deadline but the law's own."""
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        return hypothesis.settings(
            max_examples=self.scale(quick, default, full),
            stateful_step_count=steps,
            deadline=None,
            database=None,
            # Shrinking takes longer than a law may, unless the law bounds it.
            phases=(*phases, hypothesis.Phase.shrink) if shrink else phases,
            derandomize=True,
            print_blob=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )

    def content_cases(self) -> list[_corpus.Case]:
        """Every content of the profile."""
        return _corpus.content_cases(self.settings.profile)

    def size_cases(self) -> list[_corpus.Case]:
        """Every size of the profile, within the environment's declared limit on stdin."""
        limit = self.env.capabilities.max_stdin_bytes
        cases = _corpus.size_cases(self.settings.profile)
        return [case for case in cases if limit is None or len(case.data) <= limit]

    # -- what a law does ------------------------------------------------------------------------------------------

    def skip_unless(self, condition: object, reason: str) -> None:
        """Say that the law does not apply here."""
        if not condition:
            pytest.skip(NOT_APPLICABLE + reason)

    def faults(self) -> Faults:
        """Means to make the next command of the shared environment go wrong; the law ends them."""
        return self.bench.faults(self.env)

    def open(self, **settings: Any) -> BaseEnvironment:
        """Another environment of the same backend; closed when the law ends."""
        env = self.bench.opener(**settings)
        self._opened.append(env)
        return env

    def join(self, host: BaseEnvironment) -> BaseEnvironment:
        """The same environment as another client finds it by its ref; let go of when the law ends."""
        guest = type(host)(host.options)
        guest.backend_name = host.backend_name
        self._opened.append(guest)
        return guest.join(host.ref.partition("://")[2])

    def later(self, close: Callable[[], None]) -> None:
        """Call this when the law ends."""
        self._closers.append(close)

    def sh(self, script: str, **settings: Any) -> ExecResult:
        """Run a helper script in the law's directory and demand that it works."""
        settings.setdefault("cwd", self.root)
        settings.setdefault("timeout", self.deadline)
        result = self.env.exec(script, **settings)
        _demand(result, f"run the helper script {_check.short(script)}")
        return result

    def make(self, name: str, case: _corpus.Case) -> str:
        """Make a file inside from ASCII escapes, without any bytes of it on the way; returns its path."""
        path = self.path(name)
        script = _FILL.replace("FORMAT", case.content.printf)
        _demand(
            self.env.exec(["/bin/sh", "-c", script, "sh", path, str(len(case.data))]),
            f"make {case.name}",
        )
        return path

    def expect_file(self, what: str, path: str, data: bytes, *, avoid: str | None = None) -> None:
        """Demand that a file in the environment holds exactly these bytes, by the word of the oracle."""
        seen = self.bench.oracle.digest(self.env, path, avoid=avoid)
        if (seen.size, seen.sha256) == (len(data), hashlib.sha256(data).hexdigest()):
            return
        limit = min(max(seen.size, 1), 4 << 20)
        actual = dump(self.env, path, limit=limit)
        lines = _check.difference(data[:limit], actual)
        raise _check.LawBroken(
            f"{what}: the file holds {seen.size} bytes sha256 {seen.sha256} (by {seen.by}) instead of "
            f"{len(data)} bytes sha256 {hashlib.sha256(data).hexdigest()};\nin its first {limit} bytes: {lines}"
        )

    def exists(self, name: str) -> bool:
        """Whether a name exists in the law's directory, asked by a command."""
        return self.env.exec(["test", "-e", self.path(name)]).ok

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for an event.

        Raises:
            LawBroken: It did not come within the patience.
        """
        end = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > end:
                raise _check.LawBroken(f"{what}: it did not happen within {self.patience:g} s")
            time.sleep(0.02)

    def until_exists(self, name: str) -> None:
        """Wait for a file that a command makes in the law's directory."""
        self.until(lambda: self.exists(name), f"the command makes {name!r}")

    def together(self, calls: Sequence[Callable[[], object]]) -> None:
        """Make these calls at the same time, each on a thread of its own; raises what the first of them raised."""
        errors: list[BaseException] = []

        def run(call: Callable[[], object]) -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised again below
                errors.append(error)

        threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.patience)
            _check.holds(not thread.is_alive(), f"a call did not return within {self.patience:g} s")
        if errors:
            raise errors[0]

    @contextmanager
    def soon(self, what: str) -> Iterator[None]:
        """Demand that the block ends within the patience."""
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        _check.holds(took < self.patience, f"{what}: took {took:.1f} s")

    # -- the end --------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """The law hangs: give up its environments."""
        self._opened.clear()
        self.bench.abandon()

    def end(self) -> None:
        """Close what the law opened, and replace a shared environment that it has closed."""
        try:
            within(self.deadline, self._close_all)
        except Hung as error:
            self.abandon()
            raise _check.LawBroken(
                f"close did not return within {self.deadline:g} s; it hangs here:\n{error}"
            ) from None

    def _close_all(self) -> None:
        for env in self._opened:
            env.close()
        for close in self._closers:
            close()
        self.bench.replace_if_gone()
