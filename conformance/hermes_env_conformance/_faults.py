"""Faults on the way of a command: at the hooks that every backend fills in, or by a backend's own means.

`HookFaults` needs nothing of a backend: it puts itself around the hooks of one open environment. A suite whose
provider can go wrong in ways of its own gives `ConformanceSuite.faults` something else of the same shape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hermes_env import BackendUnavailable, BaseEnvironment, StagedEnvironment

if TYPE_CHECKING:
    from hermes_env import Launch

Step = Literal["stdin", "script", "launch"]
"""Where: the upload of stdin, the upload of the script, the request that starts the command."""
Kind = Literal["hold", "stall", "refuse", "fail", "late", "twice", "cut"]
"""What goes wrong.

==========  ============================================================================================
``hold``    the step waits until it is released, then does its work
``stall``   the step waits until it is released, then fails and has done nothing
``refuse``  the step fails and has done nothing
``fail``    the step does its work and fails all the same: the reply is lost
``late``    the step fails at once; its work is done when it is released
``twice``   the request arrives twice
``cut``     the step works; when it is released, the link is lost and what it started goes on
==========  ============================================================================================
"""

_LATE = 5.0
"""Seconds for late work to land at the end of a law; what takes longer is left behind."""


@dataclass
class Fault:
    """One armed fault."""

    steps: frozenset[Step]
    kind: Kind
    struck: threading.Event = field(default_factory=threading.Event)
    """Set when the command comes by."""
    gate: threading.Event = field(default_factory=threading.Event)
    landed: threading.Event = field(default_factory=threading.Event)
    """Set when the work of the step is done, or has failed."""

    def release(self) -> None:
        """Let what is held go on, let late work land, cut the link."""
        self.gate.set()


class Faults(Protocol):
    """What a suite may supply for its own backend."""

    def arm(self, step: Step, kind: Kind) -> Fault | None:
        """Make the next command that comes by a step go wrong; None where there is no such step or fault."""

    def disarm(self, fault: Fault) -> None:
        """Forget a fault that has not struck."""

    def end(self) -> None:
        """Release everything, wait for late work and leave the environment as it was."""


class HookFaults:
    """Faults around the hooks of one open environment."""

    def __init__(self, env: BaseEnvironment) -> None:
        self._env: Any = env
        self._armed: list[Fault] = []
        self._all: list[Fault] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._awaited: set[str] = set()
        """Commands whose script was uploaded, and that are dispatched next: other requests bear a command's id, too."""
        self._staged = isinstance(env, StagedEnvironment)
        self._wrapped: list[str] = []
        if self._staged:
            self._wrap_staged()
        else:
            self._wrap("_launch", self._launch)
            self._wrap("_kill", _kill_bare)

    def arm(self, step: Step, kind: Kind) -> Fault | None:
        """Make the next command that comes by a step go wrong."""
        if not self._staged and (step != "launch" or kind == "twice"):
            return None
        fault = Fault(frozenset({step}), kind)
        with self._lock:
            self._armed.append(fault)
            self._all.append(fault)
        return fault

    def disarm(self, fault: Fault) -> None:
        """Forget a fault that has not struck."""
        with self._lock:
            self._armed.remove(fault)

    def end(self) -> None:
        """Release everything and unwrap the hooks."""
        for fault in self._all:
            fault.release()
        for thread in self._threads:
            thread.join(_LATE)
        for name in self._wrapped:
            vars(self._env).pop(name, None)

    # -- around the hooks -----------------------------------------------------------------------------------------

    def _wrap(self, name: str, around: Callable[..., Any]) -> None:
        inner = getattr(self._env, name)
        self._wrapped.append(name)
        setattr(self._env, name, lambda *args: around(inner, *args))

    def _wrap_staged(self) -> None:
        self._wrap("_stage", self._stage)
        self._wrap("_unstage", self._aside)
        self._wrap("_run", self._run)
        if type(self._env)._stage_sized is not StagedEnvironment._stage_sized:  # noqa: SLF001 - as the next
            self._wrap("_stage_sized", self._stage)
        if type(self._env)._stage_many is not StagedEnvironment._stage_many:  # noqa: SLF001 - the default calls _stage
            self._wrap("_stage_many", self._stage_many)

    def _launch(self, inner: Callable[..., Any], launch: Launch) -> Any:
        fault = self._take({"launch"})
        if fault is None:
            return inner(launch)
        if fault.kind == "refuse":
            raise BackendUnavailable("refused by a law", reason="unreachable")
        if fault.kind == "cut":
            return _cuttable(inner(launch), fault, self._start)
        if fault.kind in ("hold", "stall"):
            return self._strike(fault, lambda: inner(launch))
        self._strike(fault, lambda: inner(launch).abort())
        raise ConnectionError("the reply was lost by a law")

    def _stage(self, inner: Callable[..., None], path: str, *content: Any) -> None:
        self._await_dispatch([path])
        fault = self._take(_steps([path]))
        self._carry(fault, lambda: self._aside(inner, path, *content))

    def _stage_many(self, inner: Callable[..., None], files: Sequence[tuple[str, bytes]]) -> None:
        self._await_dispatch([path for path, _ in files])
        fault = self._take(_steps([path for path, _ in files]))
        self._carry(fault, lambda: self._aside(inner, files))

    def _await_dispatch(self, paths: Sequence[str]) -> None:
        scripts = [path.rpartition("/")[2] for path in paths if path.endswith(".sh")]
        self._awaited.update(name.removesuffix(".sh") for name in scripts)

    def _carry(self, fault: Fault | None, work: Callable[[], None]) -> None:
        if fault is None:
            work()
        else:
            self._strike(fault, work)

    def _aside(self, inner: Callable[..., None], *args: Any) -> None:
        """Carry a file; where that is done by `_run`, those are no dispatches."""
        self._inside.active = True
        try:
            inner(*args)
        finally:
            self._inside.active = False

    def _run(self, inner: Callable[..., Any], script: str, launch: Launch) -> Any:
        fault = None
        if launch.id in self._awaited and not getattr(self._inside, "active", False):
            self._awaited.discard(launch.id)
            fault = self._take({"launch"})
        if fault is None:
            return inner(script, launch)
        if fault.kind == "refuse":
            raise BackendUnavailable("refused by a law", reason="unreachable")
        return self._strike(fault, lambda: inner(script, launch))

    def _take(self, steps: set[Step]) -> Fault | None:
        with self._lock:
            for fault in self._armed:
                if fault.steps & steps:
                    self._armed.remove(fault)
                    fault.struck.set()
                    return fault
        return None

    def _strike(self, fault: Fault, work: Callable[[], Any]) -> Any:
        if fault.kind == "refuse":
            raise ConnectionError("refused by a law")
        if fault.kind == "late":
            self._start(lambda: (fault.gate.wait(), work()), fault)
            raise ConnectionError("the link was lost by a law")
        if fault.kind == "cut":
            self._start(work, fault)
            fault.gate.wait()
            raise ConnectionError("the link was cut by a law")
        if fault.kind in ("hold", "stall"):
            fault.gate.wait()
        if fault.kind == "stall":
            fault.landed.set()
            raise ConnectionError("the link was lost by a law")
        try:
            value = work()
            if fault.kind == "twice":
                value = work()
        finally:
            fault.landed.set()
        if fault.kind == "fail":
            raise ConnectionError("the reply was lost by a law")
        return value

    def _start(self, work: Callable[[], object], fault: Fault) -> None:
        """Do work on a thread that the command does not wait for."""

        def run() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001 - nobody is there to be told
                return
            finally:
                fault.landed.set()

        thread = threading.Thread(target=run, name="hermes-env-law-fault", daemon=True)
        self._threads.append(thread)
        thread.start()


def _steps(paths: Sequence[str]) -> set[Step]:
    ends: dict[str, Step] = {"in": "stdin", "sh": "script"}
    return {ends[end] for path in paths if (end := path.rpartition(".")[2]) in ends}


def _kill_bare(inner: Callable[..., Any], command_id: str, channel: Any, grace: float) -> Any:
    """Give a backend its own channel back."""
    return inner(command_id, channel.inner if isinstance(channel, _Cuttable) else channel, grace)


class _Cuttable:
    """A channel whose link can be lost: nothing that arrives afterwards is believed."""

    def __init__(self, inner: Any, fault: Fault) -> None:
        self.inner = inner
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self) -> Any:
        """The next output."""
        return self._believed(self.inner.read)

    def exit_status(self) -> int:
        """The exit code."""
        return int(self._believed(self.inner.exit_status))

    def abort(self) -> None:
        """The command is over for its caller."""
        self.inner.abort()
        self._fault.release()

    def _believed(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        finally:
            if self._fault.gate.is_set():
                raise ConnectionError("the link was cut by a law")


class _CuttablePump(_Cuttable):
    """The same for a channel that moves all its streams at once."""

    def pump(self, *args: Any) -> None:
        """Move bytes until the end, or until the link is lost."""
        self._believed(self.inner.pump, *args)


def _cuttable(inner: Any, fault: Fault, start: Callable[..., None]) -> Any:
    cut = _CuttablePump if hasattr(inner, "pump") else _Cuttable
    start(lambda: (fault.gate.wait(), inner.abort()), fault)
    return cut(inner, fault)
