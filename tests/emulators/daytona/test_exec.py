"""Commands: the SDK's own `process.exec` meets what the fact sheet says of the vendor."""

from __future__ import annotations

import os
import socket
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from daytona import DaytonaConnectionError, DaytonaError, DaytonaTimeoutError, Sandbox
from daytona.common.errors import DaytonaProcessExecutionTimeoutError

from tests.waiting import until

if TYPE_CHECKING:
    from tests.emulators.daytona.client import Emulator

Switched = Callable[..., None]
SHELLS = ["zsh", "bash", "dash"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_is_read_from_stdin_of_the_named_shell(box: Sandbox, switched: Switched, shell: str) -> None:
    """The text of a command is the standard input of the shell, which leads its own process group."""
    switched(shell=shell)
    answer = box.process.exec("echo $0; [ $$ = $(ps -o pgid= -p $$ | tr -d ' ') ] && echo leads; head -c 3\nabc")
    assert answer.result.splitlines()[0].endswith(shell)
    assert "leads" in answer.result


@pytest.mark.parametrize("shell", ["zsh", "bash"])
def test_a_child_eats_the_lines_that_follow(box: Sandbox, switched: Switched, shell: str) -> None:
    """A command that reads stdin takes the rest of the script."""
    switched(shell=shell)
    assert box.process.exec("cat\necho 2").result.rstrip() == "echo 2"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_bare_redirection_runs_the_payload(box: Sandbox, switched: Switched, shell: str) -> None:
    """After a bare `exec 0<file` the shell goes on to run the file's text."""
    switched(shell=shell)
    box.fs.upload_file(b"echo INJECTED; exit 77\n", "payload")
    answer = box.process.exec("exec 0< payload; rm -f -- payload; true\n")
    assert (answer.exit_code, answer.result) == (77, "INJECTED\n")


def test_output_is_merged_text(box: Sandbox) -> None:
    """Both streams arrive as one text; every bad byte is one U+FFFD, while NUL, CR and escapes survive."""
    answer = box.process.exec(r"printf 'a\377\342\202b\0\r\033'; printf err >&2")
    assert answer.result == "a\ufffd\ufffd\ufffdb\0\r\x1berr"


def test_a_lone_surrogate_in_a_command_is_lost(box: Sandbox) -> None:
    """A byte carried as surrogate escape arrives as U+FFFD."""
    assert box.process.exec("printf %s '\udcff'").result == "\ufffd"


def test_output_is_lost_on_timeout(box: Sandbox) -> None:
    """A command over its time is killed with its group, and answers 408 without what it wrote."""
    with pytest.raises(DaytonaTimeoutError) as caught:
        box.process.exec("echo partial; sleep 60 & sleep 61", timeout=1)
    assert isinstance(caught.value, DaytonaProcessExecutionTimeoutError)
    assert caught.value.status_code == 408 and "partial" not in str(caught.value)


def test_the_group_is_gone_after_a_timeout(box: Sandbox, emulator: Emulator) -> None:
    """No process of the group survives its time."""
    with pytest.raises(DaytonaTimeoutError):
        box.process.exec("sleep 60 & sleep 61", timeout=1)
    until(lambda: emulator.sandboxes()[box.id]["pids"] == [])


def test_an_older_daemon_gives_only_the_base_class(box: Sandbox, switched: Switched) -> None:
    """Without a source in the envelope the SDK raises the base class of the status."""
    switched(errors="bare")
    with pytest.raises(DaytonaTimeoutError) as caught:
        box.process.exec("sleep 60", timeout=1)
    assert type(caught.value) is DaytonaTimeoutError


def test_fractions_of_a_second_are_refused(box: Sandbox) -> None:
    """The timeout of a command is whole seconds."""
    with pytest.raises(DaytonaError, match="ExecuteRequest"):
        box.process.exec("true", timeout=0.5)  # type: ignore[arg-type]  # what the SDK itself refuses


def test_the_answer_waits_for_the_end_of_the_pipe(box: Sandbox) -> None:
    """A background child that holds stdout holds the answer."""
    begin = time.monotonic()
    box.process.exec("sleep 1 &")
    assert time.monotonic() - begin >= 1.0


def test_a_command_goes_on_when_its_client_has_gone(box: Sandbox, emulator: Emulator) -> None:
    """The daemon does not kill a command whose caller hangs up."""
    url = urllib.parse.urlsplit(emulator.url)
    body = b'{"command": "touch begun; until [ -e go ]; do sleep 0.02; done; touch ended"}'
    head = f"POST /toolbox/{box.id}/process/execute HTTP/1.1\r\nHost: e\r\nAuthorization: Bearer {emulator.key}\r\n"
    home = emulator.sandboxes()[box.id]["home"]
    with socket.create_connection((url.hostname or "", url.port or 0)) as link:
        link.sendall(head.encode() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: os.path.exists(f"{home}/begun"))
    box.fs.upload_file(b"", "go")
    until(lambda: os.path.exists(f"{home}/ended"))


@pytest.mark.parametrize(("command", "cwd"), [("true", "/nope"), ("kill -s KILL $$", None)])
def test_minus_one_means_no_exit_code(box: Sandbox, command: str, cwd: str | None) -> None:
    """A directory that cannot be entered, and a shell that died of a signal, both answer 200 and -1."""
    assert box.process.exec(command, cwd=cwd).exit_code == -1


def test_a_name_that_no_variable_can_have_is_refused(box: Sandbox) -> None:
    """Names of variables are checked, values are not."""
    assert box.process.exec('echo "$A"', env={"A": "x\ny $(false)"}).result == "x\ny $(false)\n"
    with pytest.raises(DaytonaError) as caught:
        box.process.exec("true", env={"A-B": "1"})
    assert caught.value.status_code == 400


def test_a_lost_answer_runs_the_command_again(box: Sandbox, emulator: Emulator) -> None:
    """The SDK sends a command again when the connection closes without an answer."""
    emulator.fail("execute", "drop_after", sandbox=box.id)
    assert box.process.exec("echo ran >> log; wc -l < log").result.strip() == "2"
    assert emulator.counts(box.id)["execute"] == 2


def test_a_reset_connection_is_not_retried(box: Sandbox, emulator: Emulator) -> None:
    """After a reset the command ran once and the caller knows nothing of its end."""
    emulator.fail("execute", "drop_after", reset=True, sandbox=box.id)
    with pytest.raises(DaytonaConnectionError):
        box.process.exec("echo ran >> log")
    assert box.process.exec("wc -l < log").result.strip() == "1"


def test_the_proxy_may_send_a_command_twice(box: Sandbox, emulator: Emulator) -> None:
    """The vendor's proxy replays a request whose answer it lost."""
    emulator.fail("execute", "replay", sandbox=box.id)
    assert box.process.exec("echo ran >> log; wc -l < log").result.strip() == "2"


def test_dropped_before_the_work_nothing_runs(box: Sandbox, emulator: Emulator) -> None:
    """A connection reset before the work leaves nothing behind, unless the SDK sends the request again.

    Whether it does depends on how the kernel tells it of the reset: only a connection that seems closed is tried anew.
    """
    emulator.fail("execute", "drop_before", reset=True, sandbox=box.id)
    left = "ran"
    try:
        box.process.exec("touch ran")
    except DaytonaConnectionError:
        left = ""
    assert box.process.exec("ls").result.strip() == left


@pytest.mark.parametrize(("status", "name"), [(429, "DaytonaRateLimitError"), (502, "DaytonaBadGatewayError")])
def test_any_status_can_be_answered(box: Sandbox, emulator: Emulator, status: int, name: str) -> None:
    """A fault answers a status without doing the work."""
    emulator.fail("execute", "status", status, sandbox=box.id)
    with pytest.raises(DaytonaError) as caught:
        box.process.exec("touch ran")
    assert type(caught.value).__name__ == name and caught.value.status_code == status
    assert box.process.exec("ls").result == ""


def test_a_request_can_be_delayed(box: Sandbox, emulator: Emulator) -> None:
    """A delayed request still does its work."""
    emulator.fail("execute", "delay", 0.3, sandbox=box.id)
    begin = time.monotonic()
    assert box.process.exec("echo late").result == "late\n"
    assert time.monotonic() - begin >= 0.3
