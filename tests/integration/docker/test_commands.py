"""Commands in a container: bytes, exit codes, users, directories, and ends that the engine does not tell."""

from __future__ import annotations

import hashlib
import os
import threading
import time

import pytest

from hermes_env import BaseEnvironment, InvalidArgument, PayloadTooLarge, open_environment
from tests.engine import IMAGE, Engine

EVERY_BYTE = bytes(range(256)) + bytes(range(255, -1, -1))


@pytest.mark.parametrize("size", [0, 1, 4096, 131_072, 163_840, (2 << 20) + 1, 16 << 20])
def test_stdin_arrives_and_ends(env: BaseEnvironment, size: int) -> None:
    """Every byte of stdin arrives, and then end-of-file, judged by sha256sum in the container."""
    data = (EVERY_BYTE * (size // 512 + 1))[:size]
    assert env.exec("sha256sum", stdin=data).text.split()[0] == hashlib.sha256(data).hexdigest()


def test_file_written_by_stdin_is_exact_from_outside(env: BaseEnvironment, engine: Engine) -> None:
    """What a command writes is what `docker cp` takes out."""
    data = os.urandom(163_840) + b"\0\r\n\xff"
    env.exec("cat >/root/copied", stdin=data, check=True)
    packed = engine.cli("cp", f"{env.ref.partition('://')[2]}:/root/copied", "-").stdout
    assert data in packed


def test_streamed_stdin_arrives(env: BaseEnvironment) -> None:
    """An iterable is written by its own thread while output comes back."""
    chunks = [os.urandom(300_001) for _ in range(12)]
    result = env.exec("cat", stdin=iter(chunks))
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(b"".join(chunks)).digest()


def test_both_streams_flood_while_stdin_is_unread(env: BaseEnvironment) -> None:
    """3 MiB on each stream with 3 MiB of stdin that nobody reads neither blocks nor loses a byte."""
    script = "head -c 3145728 /dev/zero | tr '\\0' o & head -c 3145728 /dev/zero | tr '\\0' e >&2; wait; exit 5"
    result = env.exec(script, stdin=os.urandom(3 << 20), timeout=60)
    assert (result.stdout, result.stderr, result.exit_code) == (b"o" * 3145728, b"e" * 3145728, 5)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["nosuch"], 127),
        (["/etc/passwd"], 126),
        ("exit 126", 126),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill 0", 143),
        ("exec >&- 2>&-; sleep 0.2; exit 3", 3),
    ],
)
def test_exit_codes(env: BaseEnvironment, command: str | list[str], code: int) -> None:
    """Exit codes are the command's own, also of one that closes its streams, and 128 + n of a signal."""
    result = env.exec(command)
    assert (result.exit_code, result.stdout, result.state) == (code, b"", "finished")
    assert b"Killed" not in result.stderr and b"Terminated" not in result.stderr


def test_output_that_looks_like_the_engines_own_words(env: BaseEnvironment) -> None:
    """A command may print what the engine prints when it cannot start one."""
    text = "OCI runtime exec failed: no such file or directory: unknown\r\n"
    assert env.exec(["printf", "%s", text]).text == text


def test_output_that_looks_like_an_end_mark(env: BaseEnvironment) -> None:
    """Control characters and half marks pass through."""
    data = b"\x1e" * 70 + b"\x1e0123456789abcdef 0\n" + b"\x1e"
    assert env.exec("cat; cat /proc/self/environ >/dev/null", stdin=data).stdout == data


def test_background_child_that_holds_the_streams(fresh: BaseEnvironment) -> None:
    """A command is over half a second after its main process, says what is held, and does not delay the next ones."""
    start = time.monotonic()
    result = fresh.exec("sleep 300 & echo hi")
    took = time.monotonic() - start
    assert (result.stdout, result.exit_code) == (b"hi\n", 0) and result.held
    assert took < 1.9, "the engine's own two seconds were waited for"
    assert [fresh.exec("echo next; exit 4").exit_code for _ in range(3)] == [4, 4, 4]


def test_command_leads_its_session(env: BaseEnvironment) -> None:
    """`kill -- -$$` in a script means its own group, as in a terminal."""
    pid, group, session = env.exec("echo $$ $(cut -d' ' -f5,6 /proc/$$/stat)").text.split()
    assert pid == group == session


def test_variables_of_the_command_are_untouched(env: BaseEnvironment) -> None:
    """Whatever starts the command uses no variable that the caller may have set."""
    names = [*"abcdefghijklmnopqrstuvwxyz", "PATH_X", "IFS_", "OPTIND_"]
    values = {name: f"value of {name}\nline 2" for name in names}
    script = "".join(f'printf "%s\\n" "${name}";' for name in names)
    assert env.exec(script, env=values).text == "".join(f"{value}\n" for value in values.values())


@pytest.mark.parametrize("value", ["é ☕", "a\nb\n", "\udcff\udc80", "$(id)`id`'\""])
def test_odd_values_and_arguments_arrive(env: BaseEnvironment, value: str) -> None:
    """Variables and arguments of any bytes arrive, also those that JSON would damage."""
    assert env.exec('printf %s "$A"', env={"A": value}).text == value
    assert env.exec(["printf", "%s", value]).text == value


def test_directory_and_user(env: BaseEnvironment) -> None:
    """`cwd` and `user` choose where and as whom a command runs."""
    result = env.exec("id -u; id -g; pwd", user="agent", cwd="/home/agent")
    assert result.text.split() == ["1000", "1000", "/home/agent"]


def test_unknown_user_is_an_error_of_its_own(env: BaseEnvironment) -> None:
    """An unknown user is named; the engine's complaint is no output and no exit code."""
    seen: list[bytes] = []
    with pytest.raises(InvalidArgument, match="nobody-here"):
        env.exec("id", user="nobody-here", on_output=lambda _, data: seen.append(data))
    assert seen == []
    assert env.exec("id -u").text == "0\n"


def test_missing_directory_is_an_error_of_its_own(env: BaseEnvironment) -> None:
    """A missing `cwd` raises FileNotFoundError with the caller's path."""
    with pytest.raises(FileNotFoundError) as caught:
        env.exec("pwd", cwd="/no/such")
    assert caught.value.filename == "/no/such"


def test_missing_working_directory_of_the_container(engine: Engine) -> None:
    """A container whose own working directory was removed says so, and works with another one."""
    with open_environment("docker", image=IMAGE, host=engine.host, workdir="/gone/soon", ttl=600) as env:
        env.exec("rmdir /gone/soon /gone", cwd="/", check=False)
        engine.cli("exec", "--workdir", "/", env.ref.partition("://")[2], "rmdir", "/gone/soon")
        with pytest.raises(FileNotFoundError, match="working directory"):
            env.exec("pwd")


def test_variables_that_the_kernel_refuses(env: BaseEnvironment) -> None:
    """A variable over Linux' limit is refused before anything runs; one just under it arrives."""
    with pytest.raises(PayloadTooLarge, match="env\\['BIG'\\]"):
        env.exec("true", env={"BIG": "x" * 131_068})
    assert env.exec('printf %s "${#BIG}"', env={"BIG": "x" * 131_067}).text == "131067"


def test_live_streams(env: BaseEnvironment) -> None:
    """A started command is written to and read from while it runs."""
    process = env.start('while read -r line; do echo "got $line"; done; exit 6', live_stdin=True)
    process.write(b"one\n")
    stream = iter(process)
    assert next(stream) == ("stdout", b"got one\n")
    process.write(b"two\n")
    assert next(stream) == ("stdout", b"got two\n")
    process.close_stdin()
    assert process.wait(30).exit_code == 6


def test_commands_at_once_use_no_helper_threads(env: BaseEnvironment) -> None:
    """Forty commands at once are exact, with one thread each at most."""
    before = threading.active_count()
    payloads = [os.urandom(70_000) for _ in range(40)]
    running = [env.start("cat; sleep 1", stdin=payload) for payload in payloads]
    while any(process.state in ("new", "staging", "staged") for process in running):
        time.sleep(0.01)
    assert threading.active_count() - before <= len(running) + 1
    assert [process.wait(120).stdout == payload for process, payload in zip(running, payloads, strict=True)] == [
        True
    ] * 40
