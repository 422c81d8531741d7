"""Chapter stdin: every byte reaches the command, and so does the end."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_env import CommandCancelled, InvalidArgument, OutcomeUnknown

from ._check import equal, holds, same_bytes
from ._corpus import MIB, PATTERN, Case
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab


class StdinLaws:
    """What a command reads is what the caller gave."""

    @law(variant=True)
    def test_every_content_arrives_on_stdin(self, lab: Lab) -> None:
        """Every kind of content arrives on stdin byte for byte."""
        for case in lab.content_cases():
            result = lab.env.exec("cat >in", stdin=case.data, cwd=lab.root)
            equal(f"{case.name}: exit code", 0, result.exit_code)
            lab.expect_file(case.name, lab.path("in"), case.data)

    @law(variant=True)
    def test_every_size_arrives_on_stdin(self, lab: Lab) -> None:
        """Every size arrives on stdin byte for byte."""
        for case in lab.size_cases():
            result = lab.env.exec("cat >in", stdin=case.data, cwd=lab.root)
            equal(f"{case.name}: exit code", 0, result.exit_code)
            lab.expect_file(case.name, lab.path("in"), case.data)

    @law()
    def test_any_bytes_arrive_on_stdin(self, lab: Lab) -> None:
        """Bytes that nobody thought of arrive on stdin as well."""

        @lab.examples(5, 25, 300)
        @given(st.binary(max_size=3000))
        def arrives(data: bytes) -> None:
            lab.env.exec("cat >in", stdin=data, cwd=lab.root)
            lab.expect_file("random bytes", lab.path("in"), data)

        arrives()

    @law(variant=True)
    def test_absent_stdin_is_at_its_end(self, lab: Lab) -> None:
        """Without stdin a command sees end-of-file at once."""
        with lab.soon("cat without stdin"):
            result = lab.env.exec("cat && echo end")
        same_bytes("stdout", b"end\n", result.stdout)

    @law(variant=True)
    def test_empty_stdin_is_at_its_end(self, lab: Lab) -> None:
        """Empty stdin, in each of its forms, is end-of-file at once."""
        for name, stdin in (("bytes", b""), ("file", io.BytesIO()), ("iterable", iter([b"", b""]))):
            with lab.soon(f"cat with empty {name}"):
                result = lab.env.exec("cat && echo end", stdin=stdin)
            same_bytes(f"stdout with empty {name}", b"end\n", result.stdout)

    @law(variant=True)
    def test_the_whole_script_reads_stdin(self, lab: Lab) -> None:
        """Every command of a script reads from the one stdin, not only the first or the last."""
        script = 'IFS= read -r a; { IFS= read -r b; }; (cat >rest); printf "<%s|%s>" "$a" "$b"'
        result = lab.sh(script, stdin=b"alpha\nbeta\nrest\0of it")
        same_bytes("lines read by the first commands", b"<alpha|beta>", result.stdout)
        lab.expect_file("the rest", lab.path("rest"), b"rest\0of it")

    @law(variant=True)
    def test_a_script_with_odd_ends_reads_stdin(self, lab: Lab) -> None:
        """A comment, a newline, a backslash, a here-document or `exit` at the end of a script disturbs nothing."""
        data = b"line 1\n\nline 3 without end"
        for script in ("cat # comment", "cat\n\n", "cat\\\n", "cat; cat <<X\nX\n", "cat; exit 0", "(cat)"):
            result = lab.env.exec(script, stdin=data)
            same_bytes(f"stdout of {script!r}", data, result.stdout)

    @law()
    def test_a_literal_argv_reads_stdin(self, lab: Lab) -> None:
        """A command given as an argv reads the same stdin as a script."""
        data = PATTERN.fill(70_000)
        result = lab.env.exec(["dd", f"of={lab.path('in')}", "bs=4096"], stdin=data)
        equal("exit code", 0, result.exit_code)
        lab.expect_file("stdin of dd", lab.path("in"), data)

    @law()
    def test_a_file_as_stdin_is_read_from_where_it_stands(self, lab: Lab) -> None:
        """A binary file is carried from its position to its end."""
        data = PATTERN.fill(300_000)
        file = io.BytesIO(data)
        file.seek(1000)
        lab.sh("cat >in", stdin=file)
        lab.expect_file("the rest of the file", lab.path("in"), data[1000:])

    @law()
    def test_an_iterable_as_stdin_is_carried_in_order(self, lab: Lab) -> None:
        """Chunks of any size, empty ones too, arrive in their order."""
        chunks = [b"a", b"", b"\0" * 70_000, b"\n", PATTERN.fill(200_001), b"", b"end"]
        lab.sh("cat >in", stdin=iter(chunks))
        lab.expect_file("all chunks", lab.path("in"), b"".join(chunks))

    @law()
    def test_an_iterable_that_raises_never_looks_like_an_end(self, lab: Lab) -> None:
        """When the caller's iterable raises, the caller gets that error and the command never sees a clean end."""

        def broken() -> Iterator[bytes]:
            yield b"first half"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            lab.env.exec(f"cat >/dev/null && echo complete >{lab.path('complete')}", stdin=broken())
        holds(not lab.exists("complete"), "the command took a part of its input for all of it")

    @law()
    def test_stdin_that_nobody_reads_does_no_harm(self, lab: Lab) -> None:
        """A command that reads nothing, or only a little, ends as it would without stdin."""
        data = PATTERN.fill(4 * MIB)
        for script, code, out in (("exit 3", 3, b""), ("head -c 1", 0, b"\0"), ("exec <&-; echo x", 0, b"x\n")):
            with lab.soon(script):
                result = lab.env.exec(script, stdin=data)
            equal(f"exit code of {script!r}", code, result.exit_code)
            same_bytes(f"stdout of {script!r}", out, result.stdout)

    @law()
    def test_input_and_output_flow_at_the_same_time(self, lab: Lab) -> None:
        """A command that answers while it reads never deadlocks, whatever its sizes."""
        case = Case(PATTERN, lab.scale(1, 6, 12) * MIB)
        result = lab.env.exec("cat", stdin=case.data)
        same_bytes("what cat gave back", case.data, result.stdout)

    @law()
    def test_the_callers_stdin_is_left_alone(self, lab: Lab) -> None:
        """A command never reads what waits on the caller's own file descriptor 0."""
        reader, writer = os.pipe()
        os.write(writer, b"protocol of the caller")
        saved = os.dup(0)
        try:
            os.dup2(reader, 0)
            result = lab.env.exec("cat", timeout=lab.patience / 2)
            same_bytes("what the command read", b"", result.stdout)
            same_bytes("what is left for the caller", b"protocol of the caller", os.read(reader, 100))
        finally:
            os.dup2(saved, 0)
            for fd in (saved, reader, writer):
                os.close(fd)

    @law()
    def test_text_as_stdin_is_refused(self, lab: Lab) -> None:
        """Text is refused before anything runs: nobody guesses an encoding."""
        marker = lab.path("ran")
        with pytest.raises(InvalidArgument) as caught:
            lab.env.exec(["touch", marker], stdin="text")  # type: ignore[arg-type]  # what is refused
        equal("the argument that is named", "stdin", caught.value.argument)
        holds(not lab.exists("ran"), "the command ran")

    @law("live_stdin")
    def test_live_stdin_is_a_conversation(self, lab: Lab) -> None:
        """What is written to a running command arrives at once, and it can answer before the next write."""
        process = lab.env.start('while IFS= read -r l; do echo "got $l"; done; echo end', live_stdin=True)
        answers = iter(process)
        for word in (b"one", b"two", b"three"):
            process.write(word + b"\n")
            same_bytes(f"answer to {word!r}", b"got " + word + b"\n", next(answers)[1])
        process.close_stdin()
        same_bytes("the last words", b"end\n", b"".join(chunk for _, chunk in answers))
        equal("exit code", 0, process.wait(lab.patience).exit_code)

    @law("live_stdin")
    def test_live_stdin_carries_every_byte(self, lab: Lab) -> None:
        """Live stdin is as exact as any other, in large and in small writes."""
        process = lab.env.start(f"cat >{lab.path('in')}", live_stdin=True)
        chunks = [b"\0", b"", PATTERN.fill(300_000), b"\n", b"\xff" * 5]
        for chunk in chunks:
            process.write(chunk)
        process.close_stdin()
        equal("exit code", 0, process.wait(lab.patience).exit_code)
        lab.expect_file("live stdin", lab.path("in"), b"".join(chunks))

    @law("live_stdin")
    def test_live_stdin_of_a_command_that_ended_is_a_broken_pipe(self, lab: Lab) -> None:
        """Writing to a command that has ended raises BrokenPipeError and never blocks."""
        process = lab.env.start("exit 0", live_stdin=True)
        process.wait(lab.patience)
        with pytest.raises(BrokenPipeError):
            process.write(b"too late")

    @law()
    def test_a_kill_frees_a_blocked_stdin(self, lab: Lab) -> None:
        """Killing a command that does not read its stdin ends the transfer too."""
        process = lab.env.start("sleep 600", stdin=PATTERN.fill(4 * MIB))
        lab.until(lambda: process.state == "dispatched", "the command is dispatched")
        lab.together([process.kill])
        with pytest.raises((CommandCancelled, OutcomeUnknown)):
            process.wait(lab.patience)
