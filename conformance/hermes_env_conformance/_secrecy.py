"""Chapter secrecy: what travels is seen by nobody else."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hermes_env import CommandCancelled, HermesEnvError

from ._check import equal, holds
from ._lab import UNTIL_GO
from ._law import law
from ._watch import Sightings, canary, files_with, heard, watched_argv

if TYPE_CHECKING:
    from ._lab import Lab

_WAIT = f": >started; {UNTIL_GO}"


class SecrecyLaws:
    """Stdin, variables and file contents stay out of argument lists, logs, messages and other people's files."""

    @law(variant=True)
    def test_stdin_is_in_no_argument_list(self, lab: Lab) -> None:
        """While a command runs, its stdin is in no argument list of any process, here or inside."""
        secret = canary()
        with watched_argv(lab, secret) as seen:
            process = lab.env.start(f"cat >/dev/null; {_WAIT}", stdin=secret * 40, cwd=lab.root)
            _let_go(lab, seen)
            process.wait(lab.patience)
        equal("processes that show it", set(), seen.found)

    @law(variant=True)
    def test_variables_are_in_no_argument_list(self, lab: Lab) -> None:
        """While a command runs, the values of its variables are in no argument list, here or inside."""
        secret = canary()
        with watched_argv(lab, secret) as seen:
            process = lab.env.start(_WAIT, env={"TOKEN": secret.decode()}, cwd=lab.root)
            _let_go(lab, seen)
            process.wait(lab.patience)
        equal("processes that show them", set(), seen.found)

    @law()
    def test_variables_of_the_environment_are_in_no_argument_list(self, lab: Lab) -> None:
        """Variables given when an environment is opened are as secret as those of one command."""
        secret = canary()
        env = lab.open(env={"TOKEN": secret.decode()})
        env.exec(["mkdir", "-p", lab.root], check=True)
        with watched_argv(lab, secret) as seen:
            process = env.start(_WAIT, cwd=lab.root)
            lab.until(lambda: env.exec(["test", "-e", lab.path("started")]).ok, "the command runs")
            seen.look_again()
            env.exec(": >go", cwd=lab.root)
            process.wait(lab.patience)
        equal("processes that show them", set(), seen.found)

    @law(variant=True)
    def test_file_content_is_in_no_argument_list(self, lab: Lab) -> None:
        """While a file is written or read, its content is in no argument list, here or inside."""
        secret, path = canary(), lab.path("file")

        with watched_argv(lab, secret) as seen:

            def slow() -> Iterator[bytes]:
                yield secret * 40
                seen.look_again()
                yield secret

            for data in (slow(), secret * 40, secret * 40):
                lab.env.files.write_bytes(path, data)
                lab.env.files.read_bytes(path)
            lab.env.files.remove(path)
        equal("processes that show it", set(), seen.found)

    @law()
    def test_a_file_that_is_being_written_is_private(self, lab: Lab) -> None:
        """While content arrives, nobody but the owner can read the file that takes it, whatever the umask is."""
        listing: list[str] = []

        def slow() -> Iterator[bytes]:
            yield b"secret" * 100_000
            listing.extend(lab.sh("ls -lnA box").text.splitlines())
            yield b"end"

        lab.sh("mkdir box; printf old >box/file; chmod 644 box/file")
        with _umask(0):
            lab.env.files.write_bytes(lab.path("box/file"), slow())
        others = [line for line in listing if line[:1] == "-" and not line.endswith(" file")]
        equal("files that others can read", [], [line[:10] for line in others if line[4:10] != "------"])

    @law()
    def test_nothing_that_travels_is_logged(self, lab: Lab) -> None:
        """The log holds no stdin, output, argument, script or value, however a command ends."""
        secret = canary().decode()
        with heard() as ears:
            lab.env.exec("cat", stdin=secret.encode() * 3)
            lab.env.exec(f"echo {secret}; exit 1", env={"TOKEN": secret})
            lab.env.exec(["echo", secret])
            lab.env.files.write_bytes(lab.path("file"), secret.encode())
            lab.env.files.read_bytes(lab.path("file"))
            for call in _failures(lab, secret):
                with pytest.raises((HermesEnvError, OSError)):
                    call()
        leaks = [line.replace(secret, "SECRET") for line in ears.heard if secret in line]
        equal("log records that hold it", [], leaks)

    @law()
    def test_errors_do_not_tell_secrets(self, lab: Lab) -> None:
        """No error message or traceback line holds a value, stdin, script or output of the command."""
        secret = canary().decode()
        for call in _failures(lab, secret):
            with pytest.raises((HermesEnvError, OSError)) as caught:
                call()
            text = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value)
            holds(secret not in text, f"{type(caught.value).__name__} tells it: {text.replace(secret, 'SECRET')}")

    @law()
    def test_results_do_not_show_output_by_accident(self, lab: Lab) -> None:
        """The `repr` of a result or process, which lands in logs, holds no output and no command."""
        secret = canary().decode()
        process = lab.env.start(f"echo {secret}; echo {secret} >&2", env={"TOKEN": secret})
        result = process.wait(lab.patience)
        holds(secret in result.text, "the command did not write it, so the law says nothing")
        shown = [name for name, value in (("result", result), ("process", process)) if secret in repr(value)]
        equal("reprs that hold it", [], shown)

    @law(variant=True)
    def test_a_stdin_that_is_a_file_is_private_and_has_no_name(self, lab: Lab) -> None:
        """Where stdin is carried in a file, that file is readable by its owner only and already unlinked."""
        result = lab.env.exec("stat -L -c '%F/%a/%h' /proc/self/fd/0; cat >/dev/null", stdin=b"secret" * 1000)
        lab.skip_unless(result.stdout, "the environment has no `stat -c`")
        kind, mode, links = result.text.strip().rsplit("/", 2)
        if kind.startswith("regular"):
            equal("mode and links", ("600", "0"), (mode, links))
        else:
            holds(re.fullmatch(r"fifo|socket|character special file", kind), f"stdin is a {kind}")

    @law()
    def test_no_file_keeps_stdin(self, lab: Lab) -> None:
        """After a command has ended, or was killed, no file of its environment holds its stdin."""
        secret = canary()
        # Two seconds back: some `find` compare whole seconds.
        back = "touch -d @$(($(date +%s)-2)) mark 2>/dev/null || { : >mark; sleep 1.1; }"
        lab.sh(f"umask 077; cat >needle; {back}", stdin=secret)
        lab.env.exec("cat >/dev/null", stdin=secret * 1000)
        process = lab.env.start("sleep 600", stdin=secret * 1000)
        lab.until(lambda: process.state == "dispatched", "the command is dispatched")
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(lab.patience)
        equal("files that hold it", set(), files_with(lab, depth=lab.scale(4, 9, 9)))


def _let_go(lab: Lab, seen: Sightings) -> None:
    """Wait until the command runs, look at it, and let it end."""
    lab.until_exists("started")
    seen.look_again()
    lab.sh(": >go")


def _failures(lab: Lab, secret: str) -> list[Callable[[], object]]:
    """Calls that fail in different ways, each with the secret in all that it carries."""
    env, script = {"TOKEN": secret}, f"cat >/dev/null; echo {secret}"
    return [
        lambda: lab.env.exec(f"{script}; exit 1", stdin=secret.encode(), env=env, check=True),
        lambda: lab.env.exec(f"{script}; sleep 600", stdin=secret.encode(), env=env, timeout=lab.moment),
        lambda: lab.env.exec(script, env={"TOKEN": f"{secret}\0"}),
        lambda: lab.env.exec(script, env=env, cwd=lab.path("missing")),
        lambda: lab.env.exec(script, env=env, timeout=-1),
        lambda: lab.env.files.write_bytes(lab.path("missing/file"), secret.encode()),
        lambda: lab.env.files.write_bytes(lab.path("x"), secret.encode(), if_sha256="0" * 64),
    ]


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    """The most careless umask that a caller may have."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
