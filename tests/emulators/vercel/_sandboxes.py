"""Sandboxes and their sessions: directories, settings and life."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.emulators._namespace import Namespace, available
from tests.emulators._processes import kill_marked, marked

from ._account import account

if TYPE_CHECKING:
    from tests.emulators._http import Refusal

    from ._account import Account
    from ._commands import Command
    from ._switches import Switches

MARK = "EMULATED_SANDBOX_SESSION"
"""Variable that every process of a session carries; by it this emulator finds what it has to end."""
_RUNNING = ("pending", "running", "stopping")


def now_ms() -> int:
    """The time as the service writes it."""
    return int(time.time() * 1000)


@dataclass(slots=True)
class Session:
    """One run of a sandbox: the machine, from start to stop."""

    sandbox: str
    cwd: str
    limit_ms: int
    network_policy: Any
    id: str = field(default_factory=lambda: f"sbx_{secrets.token_hex(12)}")
    status: str = "pending"
    requested: int = field(default_factory=now_ms)
    started: int = field(default_factory=now_ms)
    stopped: int | None = None
    commands: dict[str, Command] = field(default_factory=dict)
    namespace: Namespace | None = None

    def boot(self, *, isolated: bool) -> None:
        """Give its processes a place. Blocks."""
        # Its commands are born in the namespace by a call of a thread, which only root may make.
        if isolated and os.geteuid() == 0 and available():
            self.namespace = Namespace()

    @property
    def ends_at(self) -> int:
        """When its execution time limit is over, in milliseconds."""
        return self.started + self.limit_ms

    @property
    def alive(self) -> bool:
        """Whether there is a machine."""
        return self.status in _RUNNING

    def halt(self, refusal: Refusal) -> None:
        """Commands learn that their machine has gone. Call it in the loop, before `power_off`."""
        for command in self.commands.values():
            command.lose(refusal)

    def power_off(self) -> None:
        """End every process. Blocks."""
        if self.namespace is not None:
            self.namespace.end()
            self.namespace = None
        kill_marked(MARK, self.id)

    def pids(self) -> list[int]:
        """Its processes, as this machine numbers them."""
        if self.namespace is not None:
            return self.namespace.pids()
        return marked(MARK, self.id)


@dataclass(slots=True)
class Sandbox:
    """One sandbox: a name, settings, a directory, and its sessions, the newest last."""

    name: str
    root: str
    project: str
    settings: dict[str, Any]
    limit_ms: int
    persistent: bool
    sessions: list[Session] = field(default_factory=list)
    snapshot: str | None = None
    account: Account | None = None
    created: int = field(default_factory=now_ms)
    updated: int = field(default_factory=now_ms)

    @property
    def home(self) -> str:
        """The working directory of its commands; another path than on the hosted service, as its images differ."""
        return os.path.join(self.root, "vercel")

    @property
    def session(self) -> Session:
        """The current one."""
        return self.sessions[-1]

    @property
    def tags(self) -> dict[str, str]:
        """Its tags."""
        return self.settings.get("tags") or {}

    def environ(self, session: Session) -> dict[str, str]:
        """Variables of its processes. The images' Dockerfile sets HOME."""
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.home,
            "LANG": "C.UTF-8",
        }
        return {**base, **(self.settings.get("env") or {}), MARK: session.id}

    def open_session(self) -> Session:
        """A new current session."""
        if not os.path.isdir(self.home):
            os.makedirs(self.home, mode=0o755)
            if self.account is not None:
                self.account.own(self.home)
        session = Session(self.name, self.home, self.limit_ms, self.settings.get("networkPolicy"))
        self.sessions.append(session)
        return session

    def wipe(self) -> None:
        """Remove its files. Blocks."""
        shutil.rmtree(self.root, ignore_errors=True)

    def machine(self) -> dict[str, Any]:
        """What the service tells both of a sandbox and of a session."""
        resources = self.settings.get("resources") or {}
        vcpus = resources.get("vcpus") or 2
        return {
            "projectId": self.project,
            "region": self.settings.get("region") or "iad1",
            "vcpus": vcpus,
            "memory": resources.get("memory") or 2048 * vcpus,
            "networkId": self.settings.get("networkId"),
        }

    def to_json(self) -> dict[str, Any]:
        """What the service tells of it."""
        session = self.session
        told = {
            **self.machine(),
            "name": self.name,
            "currentSessionId": session.id,
            "image": self.settings.get("image") or "vercel/sandbox/universal:latest",
            "status": session.status,
            "persistent": self.persistent,
            "currentSnapshotId": self.snapshot,
            "cwd": session.cwd,
            "failoverRegions": self.settings.get("failoverRegions"),
            "timeout": self.limit_ms,
            "networkPolicy": self.settings.get("networkPolicy"),
            "statusUpdatedAt": self.updated,
            "createdAt": self.created,
            "updatedAt": self.updated,
            "tags": self.tags,
        }
        return {key: value for key, value in told.items() if value is not None}

    def session_json(self, session: Session) -> dict[str, Any]:
        """What the service tells of a session."""
        told = {
            **self.machine(),
            "id": session.id,
            "sourceSandboxName": self.name,
            "status": session.status,
            "cwd": session.cwd,
            "timeout": session.limit_ms,
            "networkPolicy": session.network_policy,
            "requestedAt": session.requested,
            "startedAt": session.started,
            "stoppedAt": session.stopped,
        }
        return {key: value for key, value in told.items() if value is not None}


def make(root: str, body: dict[str, Any], project: str, switches: Switches) -> Sandbox:
    """A sandbox with its directory and its first session."""
    identity = secrets.token_hex(6)
    persistent = body.get("persistent")
    sandbox = Sandbox(
        name=body.get("name") or f"sandbox-{identity}",
        root=os.path.join(root, identity),
        project=project,
        settings=body,
        limit_ms=body.get("timeout") or int(switches.default_limit_seconds * 1000),
        persistent=switches.persistent_default if persistent is None else persistent,
        account=account(switches.account),
    )
    sandbox.open_session()
    return sandbox
