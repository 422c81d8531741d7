"""Who says what really arrived: a program inside that the code under test did not use, or a view from outside."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hermes_env import BaseEnvironment

_SCRIPT = r"""
size() { wc -c <"$1"; }
for tool in sha256sum python3 openssl shasum; do
  [ "$tool" != "$2" ] && command -v "$tool" >/dev/null 2>&1 || continue
  case $tool in
    sha256sum) digest=$(sha256sum <"$1");;
    python3) digest=$(python3 -c "$3" <"$1");;
    openssl) digest=$(openssl dgst -sha256 -r <"$1");;
    shasum) digest=$(shasum -a 256 <"$1");;
  esac || continue
  case $digest in [0-9a-f]*) printf '%s %s %s\n' "$tool" $(size "$1") "${digest%% *}"; exit 0;; esac
done
printf 'od %s -\n' $(size "$1")
"""
_PYTHON = """import hashlib,sys
h=hashlib.sha256()
for b in iter(lambda:sys.stdin.buffer.read(1<<20),b""):h.update(b)
print(h.hexdigest())"""
_DUMP_LIMIT = 16 << 20
"""Bytes of a file that are looked at through a hexadecimal dump."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What an oracle saw."""

    size: int
    sha256: str
    by: str
    """The program or way that computed it."""


class Oracle(Protocol):
    """Tells what a file in an environment really holds, by a way that the code under test does not share."""

    name: str

    def digest(self, env: BaseEnvironment, path: str, *, avoid: str | None = None) -> Digest:
        """Size and SHA-256 of a file.

        Args:
            env: Where the file is.
            path: Absolute path.
            avoid: The hasher that the code under test used; the oracle takes another one.
        """
        ...


class InsideOracle:
    """A hasher inside the environment, other than the one the code under test used."""

    name = "inside, by another program"

    def digest(self, env: BaseEnvironment, path: str, *, avoid: str | None = None) -> Digest:
        """Size and digest by the first program found; by a hexadecimal dump where no other hasher is."""
        used = (avoid or "").split(" ")[0]
        result = env.exec(["/bin/sh", "-c", _SCRIPT, "sh", path, used, _PYTHON])
        words = result.text.split()
        if not result.ok or len(words) != 3:
            raise AssertionError(
                f"the oracle could not look at {path!r}: exit code {result.exit_code}, {result.stderr[:200]!r}"
            )
        tool, size, digest = words
        if tool == "od":
            digest = hashlib.sha256(dump(env, path, limit=int(size))).hexdigest()
        return Digest(int(size), digest, tool)


def dump(env: BaseEnvironment, path: str, *, limit: int = _DUMP_LIMIT) -> bytes:
    """The start of a file as the environment's ``od`` shows it in hexadecimal."""
    text = env.exec(["od", "-An", "-v", "-tx1", f"-N{limit}", path], output_limit=4 * limit + 4096).stdout
    return bytes.fromhex(text.decode("ascii"))
