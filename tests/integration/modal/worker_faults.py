"""Faults for the laws at the RPCs of a sandbox's worker, instead of around our own hooks."""

from __future__ import annotations

import threading

from hermes_env import BaseEnvironment
from hermes_env_conformance._faults import Fault, Faults, Kind, Step
from tests.emulators.modal.client import Emulator

START = "TaskExecStart"
ATTEMPTS = 11
"""How often the SDK sends a request to a worker."""
UNAUTHORIZED = 7
"""PERMISSION_DENIED, which the SDK takes for final."""


class WorkerFaults:
    """What the worker can do to the request that starts a command; anything else goes wrong around our hooks.

    ``fail``: the command starts and every answer is lost. ``twice``: the first answer is lost, and the SDK sends the
    request again.
    """

    def __init__(self, emulator: Emulator, env: BaseEnvironment, others: Faults) -> None:
        self._emulator, self._others = emulator, others
        self._sandbox = env.ref.partition("://")[2]
        self._ours: list[_AtWorker] = []

    def arm(self, step: Step, kind: Kind) -> Fault | None:
        """Make the next start of a command go wrong."""
        if step != "launch" or kind in ("late", "cut", "stall"):
            return self._others.arm(step, kind)
        fault = _AtWorker(self._emulator, frozenset({step}), kind)
        self._ours.append(fault)
        settings = {
            "hold": ("hold_before", 0, 1),
            "refuse": ("status", UNAUTHORIZED, 1),
            "fail": ("drop_after", 0, ATTEMPTS),
            "twice": ("drop_after", 0, 1),
        }
        name, value, times = settings[kind]
        self._emulator.fail(START, name, value, times=times, sandbox=self._sandbox)
        if kind == "hold":
            fault.watch()
        else:
            fault.struck = _Counted(self._emulator, self._sandbox)
        return fault

    def disarm(self, fault: Fault) -> None:
        """Forget a fault that has not struck."""
        if isinstance(fault, _AtWorker):
            fault.forget()
        else:
            self._others.disarm(fault)

    def end(self) -> None:
        """Leave the worker as it was."""
        for fault in self._ours:
            fault.forget()
        self._others.end()


class _Counted(threading.Event):
    """Set once another start has come by."""

    def __init__(self, emulator: Emulator, sandbox: str) -> None:
        super().__init__()
        self._emulator, self._sandbox = emulator, sandbox
        self._before = emulator.counts(sandbox).get(START, 0)

    def is_set(self) -> bool:
        """Whether it has."""
        return self._emulator.counts(self._sandbox).get(START, 0) > self._before


class _AtWorker(Fault):
    """A fault that waits at the emulator."""

    def __init__(self, emulator: Emulator, steps: frozenset[Step], kind: Kind) -> None:
        super().__init__(steps, kind)
        self._emulator = emulator
        self._watcher: threading.Thread | None = None
        self._over = False

    def watch(self) -> None:
        """Notice when a request is held."""
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def _watch(self) -> None:
        while not self._over:
            try:
                self._emulator.wait_held(START, timeout=0.5)
            except TimeoutError:
                continue
            self.struck.set()
            return

    def release(self) -> None:
        """Let the held request go on."""
        super().release()
        self._emulator.release()
        self.landed.set()

    def forget(self) -> None:
        """It strikes nobody any more."""
        if not self._over:
            self._over = True
            self._emulator.heal()
        if self._watcher is not None:
            self._watcher.join()
