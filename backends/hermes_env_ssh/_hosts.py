"""Known-hosts files: which keys a host may show, and the addition of a new one."""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hermes_env import BackendUnavailable


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public key as a known-hosts file writes it."""

    kind: str
    blob: str
    """Base64."""

    @property
    def fingerprint(self) -> str:
        """As ``ssh-keygen -l`` prints it."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """What the files say of one host.

    Attributes:
        name: The host as the files write it: ``host``, or ``[host]:port`` for any port but 22.
        files: Files to look in; those that do not exist are skipped. A new key goes into the first.
        accept_new: Add the key of a host that no file names. A key that differs is refused all the same.
        hash_names: Write the host's name as a digest.
        revoked: Files of public keys that no host may show (``RevokedHostKeys``).
    """

    name: str
    files: tuple[str, ...]
    accept_new: bool = False
    hash_names: bool = False
    revoked: tuple[str, ...] = ()

    def kinds(self) -> list[str]:
        """Kinds of keys known for this host: to be asked for first."""
        return [key.kind for marker, key in self._entries() if not marker]

    def check(self, key: HostKey) -> None:
        """Accept the key that a host has shown, or refuse the host.

        Raises:
            BackendUnavailable: ``denied``.
        """
        self._check_revoked(key)
        entries = list(self._entries())
        if any(marker == "@revoked" and known.blob == key.blob for marker, known in entries):
            raise self._denied(key, "is revoked")
        keys = [known for marker, known in entries if not marker]
        if key in keys:
            return
        if keys:
            raise self._denied(
                key,
                "is not the one that is known: the host was set up anew, or somebody is in between; "
                "nothing was sent. Remove the old line only when you know why it changed",
            )
        if not self.accept_new:
            raise self._denied(key, "is not known: add it to known_hosts, or open with host_keys='accept-new'")
        self._add(key)

    def _check_revoked(self, key: HostKey) -> None:
        for path in self.revoked:
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                # As OpenSSH does: a list that cannot be read revokes every key.
                problem = f"cannot be compared with the revoked ones of {path}: {error.strerror}"
                raise self._denied(key, problem) from error
            if data.startswith(b"SSHKRL\n"):
                problem = f"cannot be compared with {path}, a KRL: list public keys there, or use proxy_command"
                raise self._denied(key, problem)
            if key.blob.encode() in data.split():
                raise self._denied(key, f"is revoked by {path}")

    def _denied(self, key: HostKey, problem: str) -> BackendUnavailable:
        shown = f"{key.kind} {key.fingerprint}"
        where = ", ".join(self.files) or "no file"
        return BackendUnavailable(
            f"the host key of {self.name} ({shown}) {problem} (looked in: {where})", reason="denied"
        )

    def _entries(self) -> Iterator[tuple[str, HostKey]]:
        for path in self.files:
            with contextlib.suppress(FileNotFoundError):
                yield from self._entries_of(path)

    def _entries_of(self, path: str) -> Iterator[tuple[str, HostKey]]:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                words = line.split()
                marker = words.pop(0) if words and words[0].startswith("@") else ""
                if len(words) < 3 or words[0].startswith("#"):
                    continue
                if _matches(words[0], self.name):
                    yield marker, HostKey(words[1], words[2])

    def _add(self, key: HostKey) -> None:
        if not self.files:
            raise self._denied(key, "cannot be added")
        path = self.files[0]
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with open(fd, "r+b") as file:
                # A file whose last line has no end must not swallow this one.
                size = file.seek(0, os.SEEK_END)
                torn = size > 0 and os.pread(fd, 1, size - 1) not in (b"\n", b"")
                name = _hashed(self.name) if self.hash_names else self.name
                line = f"{name} {key.kind} {key.blob}\n".encode()
                file.write(b"\n" + line if torn else line)
        except OSError as error:
            raise self._denied(key, f"cannot be added to {path}: {error.strerror}") from error


def known_name(host: str, port: int) -> str:
    """A host as known-hosts files write it."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def _matches(field: str, name: str) -> bool:
    if field.startswith("|1|"):
        return _matches_hashed(field, name)
    patterns = field.lower().split(",")
    if any(_glob(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_glob(pattern, name) for pattern in patterns)


def _hashed(name: str) -> str:
    """The name as ``HashKnownHosts`` has it written."""
    salt = os.urandom(20)
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return "|1|" + "|".join(base64.b64encode(part).decode("ascii") for part in (salt, digest))


def _matches_hashed(field: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in field[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def _glob(pattern: str, name: str) -> bool:
    # Brackets are part of `[host]:port`, not of the pattern language.
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """A pattern list as ``Host`` takes it: ``*`` and ``?``, and ``!`` in front of what must not match."""
    return _matches(",".join(patterns), name.lower())
