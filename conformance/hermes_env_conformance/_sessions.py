"""Chapter sessions: a command finds directory, variables, functions and aliases as the one before it left them."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import CommandCancelled, CommandTimeout, EnvironmentGone, SessionLost, aio

from ._check import equal, holds, same_bytes
from ._corpus import PATTERN
from ._lab import UNTIL_GO
from ._law import law
from ._watch import canary, files_with, watched_argv

if TYPE_CHECKING:
    from hermes_env import Session

    from ._lab import Lab

_ODD = "a\nexport ODD=b\n\n'\"`id`$(id)$HOME\\\t*?\x01\x7f~!\n\n"
_DIRECTORY = 'it\'s a\n"dir" $HOME `id` \\ -\n'


class SessionLaws:
    """`env.session()`, by what the next command sees."""

    @law(variant=True)
    def test_a_session_keeps_its_directory(self, lab: Lab) -> None:
        """A directory that a command enters is the next one's, whatever its name, and so is the one before it."""
        with _session(lab) as session:
            equal("directory at the beginning", lab.root, session.pwd())
            session.exec(["mkdir", _DIRECTORY], check=True)
            session.exec('cd "$NAME"', env={"NAME": _DIRECTORY}, check=True)
            equal("directory of the next command", lab.path(_DIRECTORY), session.pwd())
            equal("and of a program", lab.path(_DIRECTORY), session.exec(["pwd"]).text[:-1])
            session.exec("cd - >/dev/null && cd /", check=True)
            equal("directory before it", lab.root, session.exec("cd - >/dev/null; pwd").text[:-1])
            equal("where cwd= leads", lab.path(_DIRECTORY), session.exec("pwd", cwd=_DIRECTORY).text[:-1])
            equal("directory afterwards", lab.path(_DIRECTORY), session.pwd())
            equal("directory of other commands", lab.root, lab.sh("pwd").text[:-1])

    @law(variant=True)
    def test_a_session_keeps_exported_variables(self, lab: Lab) -> None:
        """Exported values last, byte for byte, newlines too; what was unset stays unset; others see neither."""
        with _session(lab, env={"GIVEN": "1", "ODD": _ODD}) as session:
            same_bytes("a value given at the beginning", _ODD.encode(), session.exec('printf %s "$ODD"').stdout)
            session.exec('NEW=$ODD$ODD; export NEW; PLAIN=1; GIVEN=2; ODD="$ODD."', check=True)
            session.exec("unset GIVEN HOME; exit 3")
            seen = session.exec('printf "%s" "$NEW$ODD"; printf "%s" "${GIVEN-no}${PLAIN-no}${HOME-no}" >&2')
            same_bytes("values afterwards", (_ODD * 3 + ".").encode(), seen.stdout)
            same_bytes("those that must be gone", b"nonono", seen.stderr)
            same_bytes("in a program", b"%s", session.exec(["printf", "%%s"]).stdout)
            equal("in other commands", "", lab.env.exec('printf %s "${NEW-}${ODD-}"').text)

    @law(variant=True)
    def test_variables_given_to_one_command_of_a_session_end_with_it(self, lab: Lab) -> None:
        """After a command with env= its names have the session's values again, or none, also in its own exports."""
        with _session(lab, env={"OLD": "old\nvalue"}) as session:
            seen = session.exec('printf %s "$OLD$ONCE"; export ONCE=kept OLD=kept', env={"ONCE": "1", "OLD": _ODD})
            same_bytes("in the command", f"{_ODD}1".encode(), seen.stdout)
            same_bytes("afterwards", b"old\nvalue.none", session.exec('printf %s "$OLD.${ONCE-none}"').stdout)

    @law(variant=True)
    def test_a_session_keeps_functions_and_aliases(self, lab: Lab) -> None:
        """Functions and aliases last as far as the shell can print them, and what a session says of it is true."""
        with _session(lab) as session:
            session.exec('greet() { printf "<%s>" "$1"; cd /; }; alias say=\'printf "a  %s" b\' ls=false', check=True)
            expected = b"<it's>/\n" if "functions" in session.keeps else b""
            same_bytes("a function", expected, session.exec('greet "it\'s" 2>/dev/null && pwd').stdout)
            expected = b"a  b1" if "aliases" in session.keeps else b"1"
            same_bytes("an alias", expected, session.exec("say 2>/dev/null; ls || printf 1").stdout)
            session.exec("unset -f greet; unalias say ls", check="aliases" in session.keeps)
            equal("afterwards", False, session.exec("greet 1 || say 1").ok)
            same_bytes("in other commands", b"", lab.env.exec("greet 1 2>/dev/null").stdout)

    @law(variant=True)
    def test_a_session_adds_nothing_to_the_streams(self, lab: Lab) -> None:
        """Stdin, both streams and the exit code are the command's own, however it ends and whatever options it sets."""
        data = PATTERN.fill(70_000)
        with _session(lab) as session:
            seen = session.exec("cat; printf err >&2; cd /; exit 7", stdin=data)
            same_bytes("stdout", data, seen.stdout)
            same_bytes("stderr", b"err", seen.stderr)
            equal("exit code", 7, seen.exit_code)
            for text, code in (("set -eCfu; cd /; false", 1), ("trap 'printf x' 0; true", 0), ("cd /; set -a", 0)):
                seen = session.exec(text)
                equal(f"after {text}", (code, b""), (seen.exit_code, seen.stderr))
            same_bytes("merged", b"1err", session.exec("printf 1; printf err >&2", merge_stderr=True).stdout)
            equal("parameters", b"0/", session.exec('printf %s "$#$(pwd)"').stdout)

    @law()
    def test_a_long_script_changes_a_session_too(self, lab: Lab) -> None:
        """A script longer than an argument may be runs in its session, with its stdin."""
        with _session(lab) as session:
            seen = session.exec("# " + "x" * (160 << 10) + "\ncat; cd /; export LONG=1", stdin=b"in")
            same_bytes("stdout", b"in", seen.stdout)
            same_bytes("the next command", b"1/\n", session.exec('printf %s "$LONG"; pwd').stdout)

    @law("kill_scope=command", variant=True)
    def test_a_killed_command_leaves_a_session_as_it_was(self, lab: Lab) -> None:
        """A command that is killed, runs out of time or replaces its shell changes nothing; the session goes on."""
        with _session(lab) as session:
            session.exec("export STEP=1", check=True)
            with pytest.raises(CommandTimeout):
                session.exec("cd /; export STEP=2; sleep 600", timeout=lab.moment)
            process = session.start(f"cd /; export STEP=3; : >{lab.path('up')}; {UNTIL_GO}")
            lab.until_exists("up")
            process.kill()
            with pytest.raises(CommandCancelled):
                process.wait(lab.patience)
            session.exec("cd /; export STEP=4; kill -9 $$")
            same_bytes("a program", b"5", session.exec("cd /; export STEP=5; exec sh -c 'echo $STEP'").stdout.strip())
            same_bytes("the session", f"1{lab.root}\n".encode(), session.exec('printf %s "$STEP"; pwd').stdout)

    @law()
    def test_sessions_at_the_same_time_do_not_mix(self, lab: Lab) -> None:
        """Sessions do not know of each other; commands of one session run one after another, whoever asks."""
        work = f'N="$N+"; export N; sleep {lab.while_longer:.2f}'
        with _session(lab) as one, _session(lab) as two:
            turns = [lambda: one.exec(work, check=True) for _ in range(4)]
            others = [lambda: two.exec('N="$N-"; export N; cd /', check=True) for _ in range(3)]
            lab.together([*turns, *others])
            same_bytes("the one", f"++++{lab.root}\n".encode(), one.exec('printf %s "$N"; pwd').stdout)
            same_bytes("the other", b"---/\n", two.exec('printf %s "$N"; pwd').stdout)

    @law(variant=True)
    def test_a_deleted_directory_is_refused(self, lab: Lab) -> None:
        """When a session's directory is gone nothing runs, anywhere else least of all, and cwd= leads out of it."""
        with _session(lab) as session:
            session.exec("mkdir gone; cd gone; rmdir ../gone", check=True)
            with pytest.raises(FileNotFoundError) as caught:
                session.exec(f": >{lab.path('ran')}; : >here")
            equal("the path that is told", lab.path("gone"), caught.value.filename)
            equal("names made", (False, False), (lab.exists("ran"), lab.exists("here")))
            same_bytes("with cwd=", b"/\n", session.exec("pwd", cwd="/").stdout)
            same_bytes("afterwards", b"/\n", session.exec("pwd").stdout)

    @law()
    def test_a_session_without_its_state_is_refused(self, lab: Lab) -> None:
        """A command whose session was erased inside the environment, or closed, does not run with another state."""
        lab.sh(": >mark; mkdir tmp")
        with _session(lab, env={"TMPDIR": lab.path("tmp")}) as session:
            session.exec("cd /", check=True)
            lab.sh("[ -d tmp/.hermes-session.* ] && rm -rf tmp/.hermes-session.*")
            with pytest.raises(SessionLost):
                session.exec(f": >{lab.path('ran')}")
        with pytest.raises(EnvironmentGone):
            session.exec(f": >{lab.path('ran')}")
        equal("whether it ran", False, lab.exists("ran"))

    @law()
    def test_the_state_of_a_session_is_private(self, lab: Lab) -> None:
        """Values that a session keeps are in no argument list and no file that others can read; closing erases them."""
        secret = canary()
        back = "touch -d @$(($(date +%s)-2)) mark 2>/dev/null || { : >mark; sleep 1.1; }"
        lab.sh(f"mkdir tmp; {back}; umask 077; cat >needle", stdin=secret)
        settings = {"TMPDIR": lab.path("tmp"), "TOKEN": secret.decode()}
        with _session(lab, env=settings) as session:
            session.exec("umask 0; export AGAIN=$TOKEN", check=True)
            found = files_with(lab)
            holds(found, "no file holds the value: the law proves nothing")
            modes = lab.sh(f"ls -ld tmp/.h*; ls -l {' '.join(found)}").text.splitlines()
            equal("what others can read", [], [line for line in modes if line[4:10] != "------"])
        equal("files that hold it afterwards", set(), files_with(lab))

    @law()
    def test_what_a_session_keeps_is_in_no_argument_list(self, lab: Lab) -> None:
        """While a session's commands run, its values are in no argument list, here or inside."""
        secret = canary()
        with watched_argv(lab, secret) as seen, _session(lab, env={"TOKEN": secret.decode()}) as session:
            for more in (None, {"ONCE": secret.decode()}):
                process = session.start(f'COPY="$TOKEN$TOKEN"; export COPY; : >up; {UNTIL_GO}', env=more)
                lab.until_exists("up")
                seen.look_again()
                lab.sh("rm up; : >go")
                equal("exit code", 0, process.wait(lab.patience).exit_code)
                lab.sh("rm go")
        equal("processes that show it", set(), seen.found)

    @law()
    def test_awaited_sessions_are_the_same(self, lab: Lab) -> None:
        """An awaited session keeps what a blocking one keeps; a cancelled task leaves it as it was."""

        async def body(env: aio.Environment) -> None:
            async with env.session(cwd=lab.root, env={"STEP": "1"}) as session:
                await asyncio.gather(*(session.exec('STEP="$STEP+"; export STEP') for _ in range(3)))
                process = await session.start("cd /; printf %s started")
                task = asyncio.create_task(session.exec(f": >{lab.path('up')}; cd {lab.root}; {UNTIL_GO}"))
                same_bytes("stdout", b"started", (await process.wait(lab.patience)).stdout)
                await asyncio.to_thread(lab.until_exists, "up")
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                equal("the directory", "/", await session.pwd())
                same_bytes("the next command", b"1+++", (await session.exec('printf %s "$STEP"')).stdout)
            with pytest.raises(EnvironmentGone):
                await session.exec("true")

        async def main() -> None:
            await body(aio.Environment(lab.env, max_concurrency=8))

        asyncio.run(main())
        gc.collect()  # The threads of the façade end with it.


def _session(lab: Lab, **settings: Any) -> Session:
    return lab.env.session(cwd=lab.root, **settings)
