"""Faults that a test arms at one step of an SDK of our own: delays, errors, lost replies, late effects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

T = TypeVar("T")

Kind = Literal["delay", "error_before", "error_after", "lost", "late", "twice", "abandoned"]
"""What goes wrong.

=============== =======================================================================================
``delay``       the step waits for the gate, then does its work
``error_before``  the step fails and has done nothing
``error_after`` the step does its work, then fails
``lost``        the step does its work, then does not answer before the gate opens, and fails then
``late``        the step fails at once; its work is done when the gate opens
``abandoned``   the step's work begins, the step fails when the gate opens, and the work goes on
``twice``       the request is sent again after its work was done: the second reply is what arrives
=============== =======================================================================================
"""


class SdkError(Exception):
    """What the SDK raises when something goes wrong between it and its service."""


@dataclass
class Fault:
    """One armed fault."""

    step: str
    kind: Kind
    match: str = ""
    """Part of the path or text that the step must work on."""
    times: int = 1
    gate: threading.Event = field(default_factory=threading.Event)
    """The test opens it."""
    reached: threading.Event = field(default_factory=threading.Event)
    """Set when the fault strikes."""
    landed: threading.Event = field(default_factory=threading.Event)
    """Set when the work of the step has been done, or has failed."""


class Faults:
    """The armed faults of one SDK and a record of its calls."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []
        """Every call as step and subject, in order."""
        self.threads: list[threading.Thread] = []

    def arm(self, step: str, kind: Kind, *, match: str = "", times: int = 1) -> Fault:
        """Make the next matching call of a step go wrong."""
        fault = Fault(step, kind, match, times)
        with self._lock:
            self._armed.append(fault)
        return fault

    def count(self, step: str, match: str = "") -> int:
        """Calls of a step on a matching subject so far."""
        with self._lock:
            return sum(1 for name, subject in self.calls if name == step and match in subject)

    def release(self) -> None:
        """Open every gate and wait for late work, at the end of a test."""
        with self._lock:
            armed, self._armed = self._armed, []
            threads = list(self.threads)
        for fault in armed:
            fault.gate.set()
        for thread in threads:
            thread.join()

    def apply(self, step: str, subject: str, work: Callable[[], T]) -> T:
        """Do the work of a step, with the fault that is armed for it."""
        fault = self._take(step, subject)
        if fault is None:
            return work()
        fault.reached.set()
        return self._strike(fault, work)

    def _take(self, step: str, subject: str) -> Fault | None:
        with self._lock:
            self.calls.append((step, subject))
            for fault in self._armed:
                if fault.step == step and fault.match in subject and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def _strike(self, fault: Fault, work: Callable[[], T]) -> T:
        if fault.kind == "error_before":
            raise SdkError("refused")
        if fault.kind == "late":
            self._aside(fault, lambda: (fault.gate.wait(), work()))
            raise SdkError("connection reset")
        if fault.kind == "abandoned":
            self._aside(fault, work)
            fault.gate.wait()
            raise SdkError("connection reset")
        if fault.kind == "delay":
            fault.gate.wait()
        try:
            value = work()
        finally:
            fault.landed.set()
        if fault.kind == "twice":
            return work()
        if fault.kind == "lost":
            fault.gate.wait()
        if fault.kind in ("lost", "error_after"):
            raise SdkError("connection reset")
        return value

    def _aside(self, fault: Fault, work: Callable[[], object]) -> None:
        """Do the work on a thread that nobody waits for, as a service does when its client is gone."""

        def land() -> None:
            try:
                work()
            except (SdkError, OSError):
                return  # The environment is gone by now.
            finally:
                fault.landed.set()

        thread = threading.Thread(target=land)
        with self._lock:
            self.threads.append(thread)
        thread.start()
