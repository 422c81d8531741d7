"""An engine that a test may kill, beside the one under test; it has a TLS port, and its containers live on."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests import certificates, engine
from tests.engine import Engine
from tests.sshd import free_port


class OwnEngine:
    """A second dockerd, with a bridge of its own: `--bridge=none` would remove the first one's."""

    def __init__(self, folder: Path, bridge: str) -> None:
        self.folder, self.bridge = folder, bridge
        self.certificates = folder / "certificates"
        self.certificates.mkdir()
        certificates.make(self.certificates)
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.engine = self.start()
        engine.ensure_image(self.engine)

    def start(self) -> Engine:
        """Start it, or start it again after `kill`."""
        server = self.certificates / "server"
        return engine.start(
            str(self.folder),
            f"--bridge={self.bridge}",
            "--iptables=false",
            "--live-restore",
            f"--host={self.address}",
            "--tlsverify",
            f"--tlscacert={server}/ca.pem",
            f"--tlscert={server}/cert.pem",
            f"--tlskey={server}/key.pem",
        )

    def kill(self) -> None:
        """SIGKILL of dockerd alone."""
        engine.kill(str(self.folder))

    def end(self) -> None:
        """Remove every container, then the engine."""
        if not self.engine.answers():
            self.start()
        for ident in self.engine.cli("ps", "--all", "--quiet").stdout.decode().split():
            self.engine.cli("rm", "--force", "--volumes", ident)
        engine.stop(str(self.folder))


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def own_engine() -> Iterator[OwnEngine]:
    """One for the length of a with block.

    Raises:
        EngineUnavailable: It cannot run here.
    """
    with _bridge() as bridge:
        # A short path: the address of a unix socket has 107 bytes at most.
        made = OwnEngine(Path(tempfile.mkdtemp(prefix="hermes-env-own-")), bridge)
        try:
            yield made
        finally:
            made.end()


@contextlib.contextmanager
def _bridge() -> Iterator[str]:
    if shutil.which("ip") is None:
        raise engine.EngineUnavailable("no `ip`: install Debian's iproute2")
    name = f"hev{os.getpid()}"
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("addr", "add", "172.31.251.1/24", "dev", name)
        yield name
    finally:
        _ip("link", "del", name)
