"""The main job, told in a few lines: bytes go in, a command changes them there, another program confirms the outcome.

``make demo`` runs this on this machine and, where a Docker engine runs or can be started, in a container.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from hermes_env import BaseEnvironment, HermesEnvError, open_environment
from tests.engine import IMAGE, Engine, EngineUnavailable, engine

PAYLOAD = (bytes(range(256)) * 640)[: 160 << 10]
"""160 KiB with 640 NULs: more than one argument can carry on Linux, and no text at all."""
SWAPPED = bytes(byte for pair in zip(PAYLOAD[1::2], PAYLOAD[::2], strict=True) for byte in pair)

Confirm = Callable[[str], str]
"""Gives the SHA-256 of a file of the environment, computed outside of it by another program."""


def say(text: str) -> None:
    """Print one line of the story now."""
    print(text, flush=True)


def move_bytes(env: BaseEnvironment, folder: str, confirm: Confirm) -> bool:
    """Write, transform inside, confirm from outside, read back."""
    before, after = f"{folder}/payload.bin", f"{folder}/swapped.bin"
    written = env.files.write_bytes(before, PAYLOAD, make_parents=True)
    say(f"   wrote     {written.size} bytes, {PAYLOAD.count(0)} of them NUL; verified inside by {written.verified_by}")
    result = env.exec('dd if="$IN" of="$OUT" conv=swab 2>/dev/null', env={"IN": before, "OUT": after}, check=True)
    say(f"   ran       dd conv=swab there: exit code {result.exit_code} in {result.duration * 1000:.0f} ms")
    expected, found = hashlib.sha256(SWAPPED).hexdigest(), confirm(after)
    say(f"   confirmed {found[:16]}… by sha256sum from outside: {'equal' if found == expected else 'DIFFERENT'}")
    back = env.files.read_bytes(after)
    say(f"   read back {len(back)} bytes: {'equal' if back == SWAPPED else 'DIFFERENT'}")
    return found == expected and back == SWAPPED


def sha256sum(data: bytes) -> str:
    """The digest that the program sha256sum computes on this machine."""
    done = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True)
    return done.stdout.split()[0].decode("ascii")


def on_this_machine() -> bool:
    """The story on `local`; sha256sum reads the file itself."""
    say("-> local: this machine, no isolation")
    with tempfile.TemporaryDirectory() as folder, open_environment("local", cwd=folder) as env:

        def confirm(path: str) -> str:
            with open(path, "rb") as file:
                return sha256sum(file.read())

        held = move_bytes(env, folder, confirm)
    return suite("local", "this machine") and held


def in_a_container(running: Engine) -> bool:
    """The story on `docker`; the docker command copies the file out."""
    say(f"-> docker: a container of busybox alone, engine at {running.host}")
    label = f"hermes-env-demo={secrets.token_hex(8)}"

    def confirm(path: str) -> str:
        container = running.cli("ps", "--quiet", "--filter", f"label={label}").stdout.decode().strip()
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "copy")
            done = running.cli("cp", f"{container}:{path}", copy)
            if done.returncode:
                raise RuntimeError(done.stderr.decode(errors="replace"))
            with open(copy, "rb") as file:
                return sha256sum(file.read())

    labels = dict([label.split("=")])
    with open_environment("docker", image=IMAGE, host=running.host, labels=labels) as env:
        held = move_bytes(env, "/tmp/demo", confirm)
    version = running.cli("version", "--format", "{{.Server.Version}}").stdout.decode().strip()
    return suite("docker", f"Docker Engine {version}, busybox", f"image={IMAGE}", f"host={running.host}") and held


def suite(backend: str, against: str, *options: str) -> bool:
    """Run the conformance suite as a person would, from an empty folder."""
    say(f"   the conformance suite on {backend}, profile quick:")
    given = [part for option in options for part in ("--option", option)]
    command = [sys.executable, "-m", "hermes_env", "conformance", backend, "--profile", "quick", "--against", against]
    with tempfile.TemporaryDirectory() as empty:
        if backend == "local":
            given += ["--workspace", empty]
        return subprocess.run([*command, *given], cwd=empty, check=False, stdin=subprocess.DEVNULL).returncode == 0


def main() -> int:
    """Tell the story; the exit code is 0 when everything held, or when only Docker could not be had."""
    started = time.monotonic()
    held = {"local": on_this_machine()}
    skipped = ""
    try:
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(engine())
            held["docker"] = in_a_container(running)
    except EngineUnavailable as error:
        skipped = f"; docker skipped: {error}"
        say(f"-> docker: skipped, {error}")
    took = f"{time.monotonic() - started:.0f} s"
    failed = [name for name, ok in held.items() if not ok]
    if failed:
        say(f"demo FAILED on {' and '.join(failed)} after {took}{skipped}")
        return 1
    say(f"demo ok: every byte arrived on {' and '.join(held)}, confirmed from outside, in {took}{skipped}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HermesEnvError as error:
        sys.exit(f"demo FAILED: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
