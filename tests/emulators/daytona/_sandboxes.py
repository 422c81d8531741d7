"""Sandboxes: directories, labels and life."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.emulators._namespace import Namespace, available
from tests.emulators._processes import kill_marked, marked

MARK = "DAYTONA_SANDBOX_ID"
"""Variable that the daemon gives every process of a sandbox; by it this emulator finds what it has to end."""


@dataclass(slots=True)
class Sandbox:
    """One sandbox and what the control plane says about it."""

    id: str
    name: str
    root: str
    labels: dict[str, str]
    env: dict[str, str]
    request: dict[str, Any]
    auto_stop: float
    auto_archive: float
    auto_delete: float
    ttl: float
    state: str = "started"
    created: float = field(default_factory=time.time)
    last_activity: float = field(default_factory=time.time)
    busy: int = 0
    ready_at: float = 0.0
    namespace: Namespace | None = None

    @property
    def home(self) -> str:
        """The working directory of its commands."""
        return os.path.join(self.root, "home")

    def idle(self, now: float, minute: float) -> bool:
        """Whether it has been idle for its auto-stop interval."""
        waiting = self.state == "started" and not self.busy and self.auto_stop > 0
        return waiting and now > self.last_activity + self.auto_stop * minute

    def environ(self) -> dict[str, str]:
        """Variables of its processes."""
        base = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "USER": "daytona",
        }
        return {**base, **self.env, MARK: self.id}

    def path(self, path: str) -> str:
        """A path of a request; relative ones start at the working directory."""
        return os.path.join(self.home, path)

    def start(self, *, isolated: bool) -> None:
        """What a machine does when it starts: give processes a place."""
        if isolated and self.namespace is None and available():
            self.namespace = Namespace()

    def kill_all(self) -> None:
        """End every process of the sandbox."""
        if self.namespace is not None:
            self.namespace.end()
            self.namespace = None
        kill_marked(MARK, self.id)

    def to_json(self, toolbox_url: str) -> dict[str, Any]:
        """What the control plane answers."""
        request = self.request
        return {
            "id": self.id,
            "organizationId": "00000000-0000-0000-0000-000000000001",
            "name": self.name,
            "snapshot": request.get("snapshot", "daytonaio/sandbox:default"),
            "user": request.get("user", "daytona"),
            "env": self.env,
            "labels": self.labels,
            "public": bool(request.get("public")),
            "networkBlockAll": bool(request.get("networkBlockAll")),
            "kvm": False,
            "target": request.get("target") or "local",
            "cpu": request.get("cpu") or 1,
            "gpu": request.get("gpu") or 0,
            "memory": request.get("memory") or 1,
            "disk": request.get("disk") or 3,
            "volumes": request.get("volumes") or [],
            "state": self.state,
            "autoStopInterval": self.auto_stop,
            "autoArchiveInterval": self.auto_archive,
            "autoDeleteInterval": self.auto_delete,
            "createdAt": _stamp(self.created),
            "updatedAt": _stamp(self.last_activity),
            "lastActivityAt": _stamp(self.last_activity),
            "toolboxProxyUrl": toolbox_url,
            **({"autoDestroyAt": _stamp(self.created + self.ttl * 60)} if self.ttl else {}),
        }


def make(root: str, body: dict[str, Any], *, auto_stop: int) -> Sandbox:
    """A sandbox with its directory."""
    identity = str(uuid.uuid4())
    place = os.path.join(root, identity)
    os.makedirs(os.path.join(place, "home"), mode=0o755)
    return Sandbox(
        id=identity,
        name=body.get("name") or identity,
        root=place,
        labels=dict(body.get("labels") or {}),
        env=dict(body.get("env") or {}),
        request=body,
        auto_stop=body["autoStopInterval"] if body.get("autoStopInterval") is not None else auto_stop,
        auto_archive=body["autoArchiveInterval"] if body.get("autoArchiveInterval") is not None else 7 * 24 * 60,
        auto_delete=body["autoDeleteInterval"] if body.get("autoDeleteInterval") is not None else -1,
        ttl=body.get("ttlMinutes") or 0,
    )


def destroy(sandbox: Sandbox) -> None:
    """Kill what runs and remove the directory."""
    sandbox.state = "destroyed"
    sandbox.kill_all()
    shutil.rmtree(sandbox.root, ignore_errors=True)


def pids_of(identity: str) -> list[int]:
    """Processes with the mark of this sandbox."""
    return marked(MARK, identity)


def _stamp(moment: float) -> str:
    return dt.datetime.fromtimestamp(moment, dt.UTC).isoformat(timespec="milliseconds")
