"""Chapter process: what runs is what was asked for, once, and it ends when it should."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from hermes_env import (
    CommandCancelled,
    CommandFailed,
    CommandTimeout,
    HermesEnvError,
    InvalidArgument,
    Process,
    Unsupported,
)

from ._check import equal, holds, same_bytes
from ._corpus import NASTY_NAMES, NASTY_VALUES
from ._lab import UNTIL_GO
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab


class ProcessLaws:
    """Commands, arguments, directories, variables and exit codes."""

    @law(variant=True)
    def test_exit_codes_come_back(self, lab: Lab) -> None:
        """Every exit code from 0 to 255 comes back as it is, and none of them is an error."""
        for code in (0, 1, 2, 3, 64, 77, 100, 124, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255):
            result = lab.env.exec(f"exit {code}")
            equal("exit code", code, result.exit_code)
            equal(f"ok with exit code {code}", code == 0, result.ok)

    @law(variant=True)
    def test_death_by_signal_is_128_and_its_number(self, lab: Lab) -> None:
        """A command that a signal ended has exit code 128 + number, as in every shell."""
        for number in (1, 9, 15):
            equal(f"script, signal {number}", 128 + number, lab.env.exec(f"kill -{number} $$").exit_code)
            argv = ["sh", "-c", f"kill -{number} $$"]
            equal(f"argv, signal {number}", 128 + number, lab.env.exec(argv).exit_code)

    @law(variant=True)
    def test_a_missing_program_is_127(self, lab: Lab) -> None:
        """A program that does not exist is an ordinary result: exit code 127 and its name on stderr."""
        for command in ("no-such-program-x", ["no-such-program-x", "arg"], ["/no/such-program-x"]):
            result = lab.env.exec(command)
            equal(f"{command!r}: exit code", 127, result.exit_code)
            holds(b"such-program-x" in result.stderr + result.stdout, f"{command!r}: stderr does not name it")

    @law(variant=True)
    def test_a_file_that_is_no_program_is_126(self, lab: Lab) -> None:
        """A file that cannot be executed is exit code 126, not a failure of the environment."""
        lab.sh(": >plain; chmod 600 plain")
        for command in ("./plain", ["./plain"]):
            equal(f"{command!r}: exit code", 126, lab.env.exec(command, cwd=lab.root).exit_code)

    @law(variant=True)
    def test_arguments_keep_their_boundaries(self, lab: Lab) -> None:
        """A literal argv arrives argument by argument, empty ones and undecodable bytes included."""
        script = 'for a in "$@"; do printf "%s\\0" "$a"; done'
        result = lab.env.exec(["sh", "-c", script, "sh", *NASTY_VALUES])
        expected = b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in NASTY_VALUES)
        same_bytes("the arguments", expected, result.stdout)

    @law(variant=True)
    def test_nothing_in_an_argv_is_expanded(self, lab: Lab) -> None:
        """No shell looks at a literal argv: `$`, globs, quotes, `;` and backticks are plain characters."""
        result = lab.env.exec(["printf", "%s|", "$HOME", "*", ";", "`id`", "~", "a  b", "\\n", "#"])
        same_bytes("stdout", b"$HOME|*|;|`id`|~|a  b|\\n|#|", result.stdout)

    @law(variant=True)
    def test_a_script_is_posix_sh(self, lab: Lab) -> None:
        """A str is a POSIX sh script: several lines, here-documents, functions, traps, `set -e`, any quoting."""
        script = """f() { printf '%s\\n' "f:$1"; }
        set -eu; trap 'echo trap' EXIT
        f "a 'b'"; cat <<'END'
        $HOME `id`
END
        case x in (x) echo "case";; esac; echo "caf\u00e9 \udce9"
        false || echo or"""
        expected = "f:a 'b'\n        $HOME `id`\ncase\ncaf\u00e9 \udce9\nor\ntrap\n"
        same_bytes("stdout", expected.encode("utf-8", "surrogateescape"), lab.env.exec(script).stdout)

    @law()
    def test_a_script_may_be_large(self, lab: Lab) -> None:
        """A script larger than any argument runs whole, and its stdin is still its own."""
        limit = lab.env.capabilities.max_script_bytes or 1 << 20
        lines = ": filler of a large script\n" * (min(limit, lab.scale(140_000, 300_000, 600_000)) // 28)
        result = lab.env.exec(f"read first\n{lines}echo $first; cat", stdin=b"head\ntail\0")
        same_bytes("stdout", b"head\ntail\0", result.stdout)

    @law()
    def test_wide_characters_count_by_their_bytes(self, lab: Lab) -> None:
        """An argument and a script of 30,000 characters of three bytes each arrive whole."""
        wide = "\u4e00" * 30_000
        result = lab.env.exec(["sh", "-c", 'printf %s "$1"', "sh", wide])
        same_bytes("the argument", wide.encode(), result.stdout)
        same_bytes("text of the script", wide.encode(), lab.env.exec(f"printf %s {wide}").stdout)

    @law()
    def test_commands_do_not_share_state(self, lab: Lab) -> None:
        """A directory, variable, option, umask or trap of one command does not reach the next."""
        report = 'pwd; echo "${LEAK-unset} $-"; umask; trap'
        before = lab.env.exec(report).stdout
        lab.env.exec("cd /; LEAK=1; export LEAK; set -e; umask 000; trap 'echo x' EXIT")
        same_bytes("the state of the next command", before, lab.env.exec(report).stdout)

    # -- directory and variables ----------------------------------------------------------------------------------

    @law(variant=True)
    def test_a_command_runs_in_its_directory(self, lab: Lab) -> None:
        """A command runs where `cwd` says, whatever the directory is called."""
        names = [name for name in NASTY_NAMES if not name.endswith("\n")]
        for name in names:
            directory = lab.path(name)
            lab.env.exec(["mkdir", "--", directory], check=True)
            for command in ("pwd; : >here", ["sh", "-c", "pwd; : >here"]):
                result = lab.env.exec(command, cwd=directory)
                same_bytes("pwd", directory.encode("utf-8", "surrogateescape") + b"\n", result.stdout)
            equal("the file it made", True, lab.env.exec(["test", "-e", f"{directory}/here"]).ok)

    @law()
    def test_a_directory_that_cannot_be_entered_runs_nothing(self, lab: Lab) -> None:
        """A missing cwd, or one that is a file, is the builtin error with the caller's path; nothing runs."""
        lab.sh(": >file")
        marker = lab.path("ran")
        for name, kind in (("missing", FileNotFoundError), ("file", NotADirectoryError)):
            with pytest.raises(kind) as caught:
                lab.env.exec(["touch", marker], cwd=lab.path(name))
            equal("the path in the error", lab.path(name), caught.value.filename)
        holds(not lab.exists("ran"), "the command ran somewhere else")

    @law()
    def test_a_relative_directory_starts_at_the_environments(self, lab: Lab) -> None:
        """The environment's cwd holds for every command, and a relative cwd starts there."""
        base, name = lab.settings.workspace, f"hermes-law-{secrets.token_hex(6)}"
        env = lab.open(cwd=base)
        same_bytes("pwd", f"{base}\n".encode(), env.exec("pwd").stdout)
        env.exec(["mkdir", name], check=True)
        seen = env.exec("pwd; rmdir ../" + name, cwd=name).stdout
        same_bytes(f"pwd with cwd={name!r}", f"{base.rstrip('/')}/{name}\n".encode(), seen)

    @law(variant=True)
    def test_variables_arrive_exactly(self, lab: Lab) -> None:
        """Every value of a variable arrives: newlines, quotes, undecodable bytes, nothing expanded."""
        env = {f"V{index}": value for index, value in enumerate(NASTY_VALUES)}
        script = "".join(f'printf "%s\\0" "$V{index}";' for index in range(len(NASTY_VALUES)))
        expected = b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in NASTY_VALUES)
        same_bytes("the values", expected, lab.env.exec(script, env=env).stdout)

    @law()
    def test_a_value_is_never_run(self, lab: Lab) -> None:
        """Lines in a variable's value are never taken for shell, in this command or in the next."""
        value = f"x\ntouch {lab.path('pwned')}\n'; touch {lab.path('pwned')}; '"
        same_bytes("value", value.encode(), lab.env.exec('printf %s "$A"', env={"A": value}).stdout)
        lab.env.exec("true")
        holds(not lab.exists("pwned"), "a value was run as shell")

    @law("users")
    def test_an_unknown_user_runs_nothing(self, lab: Lab) -> None:
        """A user that does not exist is an error that names the argument: no output, no exit code, nothing ran."""
        seen: list[bytes] = []
        with pytest.raises(InvalidArgument, match="no-such-user-x"):
            lab.env.exec(
                ["sh", "-c", ': >"$1"', "sh", lab.path("ran")],
                user="no-such-user-x",
                on_output=lambda _, data: seen.append(data),
            )
        equal("output", [], seen)
        holds(not lab.env.files.exists(lab.path("ran")), "the command ran, as another user")

    @law()
    def test_variables_end_with_their_command(self, lab: Lab) -> None:
        """Variables of one command are not seen by the next; those of the environment are seen by all."""
        env = lab.open(env={"KEPT": "of the environment", "BOTH": "environment"})
        script = 'echo "$KEPT|$BOTH|${ONCE-unset}"'
        first = env.exec(script, env={"ONCE": "once", "BOTH": "command"})
        same_bytes("first", b"of the environment|command|once\n", first.stdout)
        same_bytes("next", b"of the environment|environment|unset\n", env.exec(script).stdout)

    # -- refusals -------------------------------------------------------------------------------------------------

    @law()
    def test_what_cannot_be_carried_is_refused_by_name(self, lab: Lab) -> None:
        """NULs, stray surrogates, bad variable names and bad numbers are refused before anything runs."""
        marker = lab.path("ran")
        run: list[str] = ["touch", marker]
        refused: list[tuple[str, Any, dict[str, Any]]] = [
            ("cmd", f"touch {marker} \0", {}),
            ("cmd[1]", ["touch", "a\0b"], {}),
            ("cmd", f"touch {marker} \ud800", {}),
            ("cmd", [], {}),
            ("cwd", run, {"cwd": "a\0b"}),
            ("cwd", run, {"cwd": ""}),
            ("env", run, {"env": {"A=B": "x"}}),
            ("env", run, {"env": {"1A": "x"}}),
            ("env['A']", run, {"env": {"A": "a\0b"}}),
            ("timeout", run, {"timeout": -1}),
            ("output_limit", run, {"output_limit": -1}),
        ]
        for argument, command, settings in refused:
            with pytest.raises(InvalidArgument) as caught:
                lab.env.exec(command, **settings)
            equal("the argument that is named", argument, caught.value.argument)
        holds(not lab.exists("ran"), "something ran")

    @law()
    def test_powers_that_are_not_declared_are_refused(self, lab: Lab) -> None:
        """A power that the environment does not declare raises Unsupported, and nothing runs."""
        marker, powers = lab.path("ran"), lab.env.capabilities
        asked: list[dict[str, Any]] = []
        asked += [] if powers.users else [{"user": "root"}]
        asked += [] if powers.live_stdin else [{"live_stdin": True}]
        lab.skip_unless(asked, "every power is declared")
        for settings in asked:
            with pytest.raises(Unsupported):
                lab.env.start(["touch", marker], **settings).wait(lab.patience)
        holds(not lab.exists("ran"), "the command ran as if nothing had been asked")

    @law()
    def test_check_raises_with_the_result(self, lab: Lab) -> None:
        """With `check` a non-zero exit raises CommandFailed, which has the whole result; without, nothing raises."""
        with pytest.raises(CommandFailed) as caught:
            lab.env.exec("echo out; exit 9", check=True)
        result = caught.value.result
        equal("exit code and stdout", (9, b"out\n"), (result.exit_code, result.stdout))
        equal("with exit code 0", 0, lab.env.exec("true", check=True).exit_code)

    # -- once, and at the same time -------------------------------------------------------------------------------

    @law()
    def test_a_command_runs_once(self, lab: Lab) -> None:
        """Every call runs its command exactly once, however it ends."""
        for ending in ("exit 0", "exit 1", "kill -9 $$", "exec >&- 2>&-; exit 2"):
            lab.env.exec(f"echo ran >>{lab.path('runs')}; {ending}")
        lab.env.exec(["sh", "-c", f"echo ran >>{lab.path('runs')}"], stdin=b"x" * 100_000)
        same_bytes("the runs", b"ran\n" * 5, lab.sh("cat runs").stdout)

    @law()
    def test_commands_at_the_same_time_do_not_mix(self, lab: Lab) -> None:
        """Commands that run at once keep their input, output and exit codes apart."""
        count = lab.scale(4, 8, 32)
        processes = [
            lab.env.start(f"cat; echo $N; exit {index}", stdin=b"%d" % index * 10_000, env={"N": str(index)})
            for index in range(count)
        ]
        for index, process in enumerate(processes):
            result = process.wait(lab.patience)
            equal("exit code", index, result.exit_code)
            same_bytes(f"stdout of {index}", b"%d" % index * 10_000 + b"%d\n" % index, result.stdout)

    @law()
    def test_a_result_knows_its_times_and_state(self, lab: Lab) -> None:
        """A finished command says so, and its duration covers the time it ran."""
        process = lab.env.start("sleep 0.1")
        result = process.wait(lab.patience)
        equal("states of result and process", ("finished", "finished"), (result.state, process.state))
        holds(0.1 <= result.duration < lab.patience, f"duration: {result.duration} s for `sleep 0.1`")

    # -- the end --------------------------------------------------------------------------------------------------

    @law()
    def test_a_wait_that_runs_out_kills_nothing(self, lab: Lab) -> None:
        """`wait(timeout)` raises TimeoutError, the command goes on, and a later wait has its result."""
        process = lab.env.start(f"{UNTIL_GO}; echo done", cwd=lab.root)
        with pytest.raises(TimeoutError) as caught:
            process.wait(0.05)
        holds(not isinstance(caught.value, HermesEnvError), "the wait was taken for the command's deadline")
        lab.sh(": >go")
        same_bytes("stdout", b"done\n", process.wait(lab.patience).stdout)

    @law()
    def test_a_timeout_raises_with_the_output_so_far(self, lab: Lab) -> None:
        """A command over its deadline raises CommandTimeout, in time and with what it had written."""
        for seconds in lab.deadlines():
            with lab.soon("the error"), pytest.raises(CommandTimeout) as caught:
                lab.env.exec("echo before; : >begun; sleep 600; echo after", cwd=lab.root, timeout=seconds)
            if lab.exists("begun"):
                break
        same_bytes("stdout so far", b"before\n", caught.value.result.stdout)
        equal("state", "cancelled", caught.value.result.state)

    @law("kill_scope=command")
    def test_a_timeout_ends_the_whole_tree(self, lab: Lab) -> None:
        """After a timeout no child is left: background, nested, nohup or in a session of its own."""
        tree = _tree(lab)
        for seconds in lab.deadlines():
            with pytest.raises(CommandTimeout):
                lab.env.exec(tree, timeout=seconds)
            if lab.exists("session"):
                break
        _expect_stillness(lab)

    @law("kill_scope=command")
    def test_a_kill_ends_the_whole_tree(self, lab: Lab) -> None:
        """After a kill no child is left, and waiting raises CommandCancelled."""
        process = lab.env.start(_tree(lab))
        lab.until_exists("session")
        process.kill()
        with pytest.raises(CommandCancelled):
            process.wait(lab.patience)
        _expect_stillness(lab)

    @law("kill_scope=command")
    def test_a_kill_spares_other_commands(self, lab: Lab) -> None:
        """Killing one command leaves others in the same environment, and their files, alone."""
        other = lab.env.start(f"{UNTIL_GO}; echo survived", cwd=lab.root)
        victim = lab.env.start("sleep 600")
        lab.until(lambda: victim.state == "dispatched", "the command is dispatched")
        victim.kill()
        lab.sh(": >go")
        same_bytes("stdout of the other", b"survived\n", other.wait(lab.patience).stdout)

    @law()
    def test_the_environment_survives_a_kill(self, lab: Lab) -> None:
        """After kills and timeouts the next command works, in the same place and with the same files."""
        lab.sh("echo kept >file")
        with pytest.raises(CommandTimeout):
            lab.env.exec("sleep 600", timeout=lab.moment)
        process = lab.env.start("sleep 600")
        process.kill()
        same_bytes("the file", b"kept\n", lab.sh("cat file").stdout)

    @law("kill_scope=command")
    def test_terminate_lets_a_command_clean_up(self, lab: Lab) -> None:
        """`terminate` sends TERM first, so that a handler can run; a command that ignores it is killed."""
        script = f"trap 'echo bye >bye; exit 0' TERM; : >up; {UNTIL_GO}"
        _terminate(lab, lab.env.start(script, cwd=lab.root), grace=lab.patience / 2)
        same_bytes("what the handler wrote", b"bye\n", lab.sh("cat bye").stdout)
        lab.sh("rm up")
        script = f"trap '' TERM; : >up; {UNTIL_GO}"
        with lab.soon("the end of a command that ignores TERM"):
            _terminate(lab, lab.env.start(script, cwd=lab.root), grace=0.1)

    @law()
    def test_a_kill_right_after_start_is_safe(self, lab: Lab) -> None:
        """Killed in any early state a command never goes on; anyone may call `kill`, any number of times."""
        for delay in (0.0, 0.001, 0.01, 0.05):
            process = lab.env.start(f"{UNTIL_GO}; : >went-on", cwd=lab.root)
            time.sleep(delay)
            lab.together([process.kill] * 3)
            with pytest.raises(CommandCancelled):
                process.wait(lab.patience)
        # Another that waits as they would: when it has gone on, so would they have.
        lab.sh(f": >go; {UNTIL_GO}; sleep {lab.while_longer:.2f}")
        holds(not lab.exists("went-on"), "a killed command went on")

    @law()
    def test_a_kill_after_the_end_changes_nothing(self, lab: Lab) -> None:
        """Killing a command that has finished is no error and leaves its result as it was."""
        process = lab.env.start("echo out; exit 4")
        process.wait(lab.patience)
        process.kill()
        process.terminate()
        result = process.wait(lab.patience)
        equal("exit code, stdout, state", (4, b"out\n", "finished"), (result.exit_code, result.stdout, result.state))


def _tree(lab: Lab) -> str:
    """A script whose children are hard to find; each leaves a growing file as its sign of life."""
    beat = {
        name: f"n=0; while [ $n -lt 1500 ]; do n=$((n+1)); echo x >>{lab.path(name)}; sleep 0.02; done"
        for name in ("child", "nested", "nohup", "session")
    }
    own_session = f"setsid sh -c '{beat['session']}'" if _has(lab, "setsid") else beat["session"]
    return f"""({beat["child"]}) &
        (sh -c '{beat["nested"]}' & wait) &
        nohup sh -c '{beat["nohup"]}' >/dev/null 2>&1 &
        ({own_session}) &
        wait"""


def _has(lab: Lab, program: str) -> bool:
    return lab.env.exec(f"command -v {program}").ok


def _expect_stillness(lab: Lab) -> None:
    """Demand that no child of `_tree` shows a sign of life any more."""
    size = "cat child nested nohup session 2>/dev/null | wc -c"
    first = int(lab.sh(size).stdout)
    holds(first > 0, "the children never ran, so the law says nothing")
    time.sleep(2 * lab.while_longer)
    equal("signs of life a while later", first, int(lab.sh(size).stdout))


def _terminate(lab: Lab, process: Process, grace: float) -> None:
    lab.until_exists("up")
    process.terminate(grace)
    with pytest.raises(CommandCancelled):
        process.wait(lab.patience)
