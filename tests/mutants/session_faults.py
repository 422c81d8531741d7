"""Faults in sessions: each is put into the framework when the broken environment opens, in a process of its own."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator
from typing import Any, ClassVar

from hermes_env import HermesEnvError, _session_script
from hermes_env._session import Session
from hermes_env._session_state import SessionState
from hermes_env.aio import _session as awaited

from ._broken import Broken, mutant


class Misspelled(Broken):
    """Changes the text that carries a session from one command to the next."""

    changes: ClassVar[tuple[tuple[str, str], ...]]

    def _open(self) -> None:
        super()._open()
        original = _session_script.boot

        def boot(*args: Any, **settings: Any) -> str:
            text = original(*args, **settings)
            for old, new in self.changes:
                assert old in text or "_hermes_h_" in old
                text = text.replace(old, new)
            return text

        if original.__name__ == "boot" and not hasattr(original, "__wrapped__"):
            boot.__wrapped__ = original  # type: ignore[attr-defined]
            _session_script.boot = boot


@mutant("a session's directory without its last newline", "test_a_session_keeps_its_directory")
class TrimsDirectory(Misspelled):
    changes = (("_CWD=$PWD\nelse", "_CWD=$(\\pwd)\nelse"),)


@mutant("the directory before the session's own forgotten", "test_a_session_keeps_its_directory")
class ForgetsOldDirectory(Misspelled):
    changes = (("*) OLDPWD=$_hermes_o;;", "*) ;;"), ('case $_hermes_o in ?*) cd -- "$_hermes_o"', "case x in z) cd /"))


@mutant("variables kept line by line", "test_a_session_keeps_exported_variables")
class KeepsFirstLines(Misspelled):
    changes = ((") \\export -p;;", ') env | sed "s/=/=\\"/; s/\\$/\\"/; s/^/export /";;'),)


@mutant("variables that were unset come back", "test_a_session_keeps_exported_variables")
class UnsetComesBack(Misspelled):
    changes = (("&& unset $_hermes_x", ""),)


@mutant(
    "variables of one command that stay in its session",
    "test_variables_given_to_one_command_of_a_session_end_with_it",
)
class KeepsOnce(Misspelled):
    changes = (("case $_hermes_h_", "case y$_hermes_h_"), ("*) \\unset ONCE", "*) :"), ("*) \\unset OLD", "*) :"))


@mutant("functions promised and lost", "test_a_session_keeps_functions_and_aliases")
class LosesFunctions(Misspelled):
    changes = (("\\declare -f || \\exit", ":"), ("\\typeset -fp || \\exit", ":"))


@mutant("a session's state written to the command's output", "test_a_session_adds_nothing_to_the_streams")
class TellsState(Misspelled):
    changes = (('\n\\eval "$_hermes_z"', '\n\\echo "[cwd $PWD]"; \\eval "$_hermes_z"'),)


@mutant("a session's long script cut", "test_a_long_script_changes_a_session_too")
class CutsLongText(Misspelled):
    changes = (("$(cat --", "$(head -c 131072 --"),)


@mutant("a deleted directory of a session replaced by another", "test_a_deleted_directory_is_refused")
class GoesHome(Misspelled):
    changes = (('cd -- "$_hermes_c" 2>/dev/null ||', 'cd -- "$_hermes_c" 2>/dev/null || cd / ||'),)


@mutant("a session that begins anew when its state is gone", "test_a_session_without_its_state_is_refused")
class BeginsAnew(Misspelled):
    changes = (
        ('[ -d "$2" ] || _hermes_no lost', ":"),
        ('.at"; } 2>/dev/null || _hermes_no lost', '.at"; } 2>/dev/null'),
        ("|| _hermes_no lost;;", "|| :;;"),
    )


@mutant("a session's files that others can read", "test_the_state_of_a_session_is_private")
class OpenState(Misspelled):
    changes = (("\\umask 077;", "\\umask 022;"),)


class Patched(Broken):
    """Changes a method of sessions."""

    where: ClassVar[tuple[Any, str]]

    def _open(self) -> None:
        super()._open()
        owner, name = self.where
        original = getattr(owner, name)
        if not getattr(original, "mutant", False):
            broken = self.broken(original)
            broken.mutant = True
            setattr(owner, name, broken)

    def broken(self, original: Any) -> Any:
        """The method with its fault."""
        raise NotImplementedError


@mutant("a session's files left when it is closed", "test_the_state_of_a_session_is_private")
class LeavesState(Patched):
    where = (SessionState, "erase")

    def broken(self, original: Any) -> Any:
        def erase(state: Any, env: Any) -> None:
            state.closed = True

        return erase


@mutant("a session that ends when a command is killed", "test_a_killed_command_leaves_a_session_as_it_was")
class EndsWithKill(Patched):
    where = (Session, "_complete")

    def broken(self, original: Any) -> Any:
        def complete(session: Any, planned: Any) -> Any:
            try:
                return original(session, planned)
            except HermesEnvError:
                session._state.closed = True
                raise

        return complete


@mutant("state saved while the command still runs", "test_a_killed_command_leaves_a_session_as_it_was")
class SavesEarly(Misspelled):
    changes = (('\\eval "$_hermes_t"', 'cd() { command cd "$@"; (eval "$_hermes_z"); }\n\\eval "$_hermes_t"'),)

    def _open(self) -> None:
        super()._open()
        original = SessionState.plan

        def plan(state: Any, *args: Any, **settings: Any) -> Any:
            planned = original(state, *args, **settings)
            state.ended(planned)
            return planned

        if not hasattr(SessionState, "mutant"):
            SessionState.mutant = True  # type: ignore[attr-defined]
            SessionState.plan = plan  # type: ignore[method-assign, assignment]


@mutant("commands of one session at the same time", "test_sessions_at_the_same_time_do_not_mix")
class NoTurns(Patched):
    where = (Session, "_its_turn")

    def broken(self, original: Any) -> Any:
        @contextlib.contextmanager
        def turn(session: Any, timeout: Any) -> Iterator[float | None]:
            yield timeout

        return turn


@mutant("one state for all sessions", "test_sessions_at_the_same_time_do_not_mix")
class SharesState(Patched):
    where = (SessionState, "opened")

    def broken(self, original: Any) -> Any:
        first: list[str] = []

        def opened(state: Any, result: Any) -> None:
            original(state, result)
            first.append(state.directory)
            if len(first) > 1:
                shutil.rmtree(state.directory)
            state.directory = first[0]

        return opened


@mutant("a session's variables written into its script", "test_what_a_session_keeps_is_in_no_argument_list")
class WritesValues(Patched):
    where = (SessionState, "plan")

    def broken(self, original: Any) -> Any:
        def plan(state: Any, env: Any, cmd: Any, *, variables: Any = None, **settings: Any) -> Any:
            words = "".join(f"export {name}={shlex.quote(value)}; " for name, value in (variables or {}).items())
            return original(state, env, words + cmd if isinstance(cmd, str) else cmd, **settings)

        return plan


@mutant("a cancelled task that changes its awaited session", "test_awaited_sessions_are_the_same")
class NoAwaitedTurns(Patched):
    where = (awaited.Session, "_take_turn")

    def broken(self, original: Any) -> Any:
        async def take(session: Any, timeout: Any) -> Any:  # noqa: ASYNC109 - as the original
            if not session._turn.locked():
                await session._turn.acquire()
            return timeout

        def end(session: Any) -> None:
            if session._turn.locked():
                session._turn.release()

        awaited.Session._end_turn = end  # type: ignore[method-assign, assignment]
        return take
