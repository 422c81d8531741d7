"""Faults to come, requests held back, and a log of what was asked."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Fault:
    """What happens to the next requests to one endpoint.

    Attributes:
        endpoint: Name of an endpoint, or ``*``.
        kind: What happens; each emulator names the kinds that it knows. Common ones: ``delay``: wait `value` seconds
            first. ``status``: answer `value` without doing anything. ``drop_before`` and ``drop_after``: close the
            connection before, or after, the work; ``drop_during``: `value` seconds after the work began, which goes
            on. ``abort``: after `value` bytes of an upload or of the answer of a download. ``throttle``: `value` bytes
            a second. ``hold_before`` and ``hold_after``: wait for a release before, or after, the work.
            ``hold_inside``: after `value` bytes of an upload. ``replay``: the proxy sends the request on twice.
        value: Its number.
        times: How many requests it meets; -1 is all.
        skip: How many it lets pass first.
        code: The vendor's code in the answer of a ``status``.
        reset: The connection is reset instead of closed.
        sandbox: Meets only this sandbox.
    """

    endpoint: str
    kind: str
    value: float = 0.0
    times: int = 1
    skip: int = 0
    code: str = "EMULATED"
    reset: bool = False
    sandbox: str = ""

    def meets(self, endpoint: str, sandbox: str) -> bool:
        """Whether this request is one of those; counts it."""
        if self.endpoint not in ("*", endpoint) or self.times == 0 or self.sandbox not in ("", sandbox):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= self.times > 0
        return True


@dataclass(slots=True)
class Faults:
    """The faults that wait, and the requests that are held."""

    waiting: list[Fault] = field(default_factory=list)
    held: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    releases: int = 0

    def take(self, endpoint: str, sandbox: str) -> list[Fault]:
        """The faults that meet this request."""
        met = [fault for fault in self.waiting if fault.meets(endpoint, sandbox)]
        self.waiting = [fault for fault in self.waiting if fault.times != 0]
        return met

    async def hold(self, endpoint: str) -> None:
        """Wait for the next release."""
        async with self.changed:
            ticket = self.releases
            self.held[endpoint] += 1
            self.changed.notify_all()
            try:
                await self.changed.wait_for(lambda: self.releases > ticket)
            finally:
                self.held[endpoint] -= 1

    async def release(self) -> None:
        """Let every held request go on."""
        async with self.changed:
            self.releases += 1
            self.changed.notify_all()

    async def wait_held(self, endpoint: str, count: int, seconds: float) -> bool:
        """Wait until so many requests are held."""
        try:
            async with asyncio.timeout(seconds):
                async with self.changed:
                    await self.changed.wait_for(lambda: self.held[endpoint] >= count)
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class Log:
    """Every request, in order of arrival."""

    entries: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=200_000))

    def add(self, endpoint: str, sandbox: str, **facts: Any) -> dict[str, Any]:
        """Note a request; the entry may be completed later."""
        entry = {"endpoint": endpoint, "sandbox": sandbox, **facts}
        self.entries.append(entry)
        return entry

    def counts(self, sandbox: str = "") -> dict[str, int]:
        """Requests by endpoint."""
        return dict(Counter(e["endpoint"] for e in self.entries if sandbox in ("", e["sandbox"])))
