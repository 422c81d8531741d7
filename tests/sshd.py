"""Real SSH servers on 127.0.0.1 for the tests: own ports, keys and files, nothing of the user's."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

READY = 30.0
"""Seconds for a server to listen."""


def missing(*programs: str) -> str | None:
    """Why no server can run here; None when one can."""
    for program in ("sshd", "ssh-keygen", *programs):
        if find(program) is None:
            return f"{program} is not installed"
    return None


def find(program: str) -> str | None:
    """A program in the usual places of daemons too."""
    return shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


def free_port() -> int:
    """A TCP port that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair unless it is there."""
    if not path.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    return path


@dataclass
class Sshd:
    """One OpenSSH server.

    Attributes:
        folder: Holds everything of this server; must exist.
        shell: Program that runs the command string, as a login shell does; None is the account's own.
        rc: Text of the shell's start-up file.
        setup: sh text that runs before the shell.
        lines: More lines for sshd_config.
        before: Lines ahead of the usual ones: sshd takes the first value of each.
        host_key: Name of the host key file.
    """

    folder: Path
    shell: str | None = None
    rc: str = ""
    setup: str = ""
    lines: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    host_key: str = "host_key"
    user: str = field(default_factory=getpass.getuser)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """Home directory that the shell sees."""
        return self.folder / "home"

    @property
    def key(self) -> Path:
        """Private key that the server accepts."""
        return self.folder / "id"

    @property
    def known_hosts(self) -> Path:
        """File that names this server's host key."""
        return self.folder / "known_hosts"

    def options(self, **more: Any) -> dict[str, Any]:
        """Options of the backend for this server."""
        base = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "key_file": str(self.key),
            "known_hosts": str(self.known_hosts),
            "config": "none",
        }
        return {**base, **more}

    def start(self) -> Sshd:
        """Start it and wait until it listens."""
        self._write()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(find("sshd")), "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for_port(self.port, self.process, self.folder / "log")
        return self

    def stop(self) -> None:
        """End the server and all its connections."""
        if self.process is None:
            return
        # The processes of its connections lead sessions of their own.
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def _write(self) -> None:
        make_key(self.key)
        host = make_key(self.folder / self.host_key)
        shutil.copy(f"{self.key}.pub", self.folder / "authorized_keys")
        public = Path(f"{host}.pub").read_text().split()
        # Any port: the tests put proxies in front.
        self.known_hosts.write_text(f"[127.0.0.1]:* {public[0]} {public[1]}\n")
        config = [
            *self.before,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {host}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "MaxStartups 200:30:400",
            "LogLevel VERBOSE",
            *self._login_lines(),
            *self.lines,
        ]
        if not any(line.startswith("PasswordAuthentication") for line in self.lines):
            config.append("PasswordAuthentication no")
        (self.folder / "sshd_config").write_text("\n".join(config) + "\n")
        if os.geteuid() == 0:
            # Where sshd separates its privileges; it refuses to start without it.
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)

    def _login_lines(self) -> list[str]:
        """What makes sshd run another shell than the account's, in another home, as it runs a login shell."""
        self.home.mkdir(exist_ok=True)
        # A shell level above 1 keeps the account's own bash from reading the account's own .bashrc.
        if self.shell is None:
            return ["SetEnv SHLVL=1"]
        name = os.path.basename(self.shell)
        rc = {"fish": self.home / ".config/fish/config.fish", "zsh": self.home / ".zshenv"}.get(
            name, self.home / f".{name}rc"
        )
        rc.parent.mkdir(parents=True, exist_ok=True)
        rc.write_text(self.rc)
        login = self.folder / "login"
        login.write_text(
            f"#!/bin/sh\nHOME={self.home}\nexport HOME\nunset SHLVL\ncd\n{self.setup}\n"
            f'exec {self.shell} -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        login.chmod(0o755)
        return ["SetEnv SHLVL=1", f"ForceCommand {login}"]


def descendants(parent: int) -> list[int]:
    """Processes that this one has forked, and those that they have, as long as they serve connections."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if int(rest.split()[1]) == parent and ("(sshd" in name or "(dropbear" in name):
                found += [int(pid), *descendants(int(pid))]
    return found


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine that exists only for a test."""

    name: str
    password: str
    home: Path


@contextlib.contextmanager
def account(shell: str = "/bin/sh") -> Iterator[Account]:
    """Make an account with a password and a home directory, and remove both; needs root."""
    name = f"hermes-{secrets.token_hex(4)}"
    password = secrets.token_hex(12)
    home = Path(tempfile.mkdtemp(prefix="hermes-env-home-"))
    subprocess.run(["useradd", "-M", "-N", "-d", str(home), "-s", shell, name], check=True, capture_output=True)
    try:
        subprocess.run(["chpasswd"], input=f"{name}:{password}".encode(), check=True, capture_output=True)
        home.chmod(0o755)
        shutil.chown(home, name)
        yield Account(name, password, home)
    finally:
        subprocess.run(["userdel", "-f", name], check=True, capture_output=True)
        shutil.rmtree(home)


@contextlib.contextmanager
def dropbear(folder: Path, who: Account) -> Iterator[Sshd]:
    """The other implementation, for an account: its port and keys in the form of an `Sshd`."""
    server = Sshd(folder, user=who.name)
    make_key(server.key)
    keys = who.home / ".ssh"
    keys.mkdir(mode=0o700)
    shutil.copy(f"{server.key}.pub", keys / "authorized_keys")
    (keys / "authorized_keys").chmod(0o600)
    for path in (keys, keys / "authorized_keys"):
        shutil.chown(path, who.name)
    made = subprocess.run(
        ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")], check=True, capture_output=True, text=True
    )
    public = next(line for line in made.stdout.splitlines() if line.startswith("ssh-ed25519"))
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {public}\n")
    with open(folder / "log", "ab") as log:
        server.process = subprocess.Popen(
            [str(find("dropbear")), "-F", "-E", "-p", f"127.0.0.1:{server.port}", "-r", str(folder / "host"),
             "-P", str(folder / "pid")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for_port(server.port, server.process, folder / "log")
        yield server
    finally:
        server.stop()


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something listens; fail with the log when the process ends instead."""
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {log.read_text(errors='replace')[-2000:]}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1.0):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nothing listens on port {port}: {log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def running(server: Sshd) -> Iterator[Sshd]:
    """A server for the length of a with block."""
    try:
        yield server.start()
    finally:
        server.stop()
