"""Chapter output: every byte comes back, on the right stream, while and after a command runs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from ._check import equal, holds, same_bytes
from ._corpus import KIB, MIB, PATTERN, Case, Content
from ._lab import UNTIL_GO
from ._law import law

if TYPE_CHECKING:
    from ._lab import Lab

_ROOM = 64 * MIB
"""Output limit that no case reaches."""


_WORDS_OF_ENGINES = (
    ("OCI runtime exec failed: exec failed: unable to start container process: no such file or directory\r\n", 126),
    ("Connection to 127.0.0.1 closed by remote host.\r\n", 255),
    ('{"exitCode":-1,"result":"","message":"command execution timeout"}', 124),
    ("Error response from daemon: No such container\n", 1),
    ("HTTP/1.1 502 Bad Gateway\r\n\r\n", 127),
)
"""What engines, links and services say when they fail, with exit codes that go with it."""


class OutputLaws:
    """What the caller gets is what the command wrote."""

    @law(variant=True)
    def test_every_content_comes_back(self, lab: Lab) -> None:
        """Every kind of content comes back on stdout byte for byte."""
        for case in lab.content_cases():
            if case.size is None:
                result = lab.env.exec(f"printf {case.content.printf}")
            else:
                result = lab.env.exec(["cat", lab.make("out", case)], output_limit=_ROOM)
            same_bytes(f"{case.name}: stdout", case.data, result.stdout)

    @law(variant=True)
    def test_every_size_comes_back(self, lab: Lab) -> None:
        """Every size comes back on stdout byte for byte."""
        for case in lab.size_cases():
            path = lab.make("out", case)
            result = lab.env.exec(["cat", path], output_limit=_ROOM)
            same_bytes(f"{case.name}: stdout", case.data, result.stdout)
            equal(f"{case.name}: stdout_total", len(case.data), result.stdout_total)

    @law("separate_stderr")
    def test_every_content_comes_back_on_stderr(self, lab: Lab) -> None:
        """Every kind of content comes back on stderr byte for byte."""
        for case in lab.content_cases():
            if case.size is None:
                result = lab.env.exec(f"printf {case.content.printf} >&2")
                same_bytes(f"{case.name}: stderr", case.data, result.stderr)

    @law("separate_stderr")
    def test_the_streams_are_kept_apart(self, lab: Lab) -> None:
        """What goes to stderr never shows on stdout, nor the other way round."""
        result = lab.env.exec("echo out; echo err >&2; echo out; echo err >&2")
        same_bytes("stdout", b"out\nout\n", result.stdout)
        same_bytes("stderr", b"err\nerr\n", result.stderr)

    @law()
    def test_words_of_an_engine_are_output(self, lab: Lab) -> None:
        """What a command prints is its output, also when it reads like a complaint of what carries it."""
        for words, code in _WORDS_OF_ENGINES:
            result = lab.env.exec(["sh", "-c", 'printf %s "$1"; exit "$2"', "sh", words, str(code)])
            same_bytes(f"stdout of {words[:20]!r}...", words.encode(), result.stdout)
            equal(f"exit code after {words[:20]!r}...", code, result.exit_code)

    @law(variant=True)
    def test_the_end_of_output_is_exact(self, lab: Lab) -> None:
        """No newline is added at the end and none is taken away, also when there is no output at all."""
        for text in ("", "a", "a\\n", "a\\n\\n", "\\n", "\\n\\n\\n", "a\\r\\n", "a ", "a\\000"):
            result = lab.env.exec(f"printf '{text}'")
            expected = text.encode().decode("unicode_escape").encode("latin-1")
            same_bytes(f"stdout of printf '{text}'", expected, result.stdout)
            equal("exit code", 0, result.exit_code)

    @law()
    def test_silence_is_silence(self, lab: Lab) -> None:
        """A command that writes nothing gives two empty streams: no banner, no prompt, no marker."""
        for command in ("", "true", ":\n", ["true"]):
            result = lab.env.exec(command)
            seen = (result.exit_code, result.stdout, result.stderr, result.truncated)
            equal(f"{command!r}: exit code, stdout, stderr, truncated", (0, b"", b"", False), seen)

    @law()
    def test_text_is_lossless(self, lab: Lab) -> None:
        """`text` can be turned back into the very bytes, and `display` is clean Unicode."""
        result = lab.env.exec(f"printf {PATTERN.printf}; printf {PATTERN.printf} >&2")
        data = PATTERN.data
        same_bytes("text", data, result.text.encode("utf-8", "surrogateescape"))
        if lab.env.capabilities.separate_stderr:
            same_bytes("stderr_text", data, result.stderr_text.encode("utf-8", "surrogateescape"))
        result.display.encode("utf-8")

    @law()
    def test_no_character_is_cut(self, lab: Lab) -> None:
        """300,000 bytes of three-byte characters are the same characters in `text`, wherever chunks ended."""
        coffee = Content("three-byte characters", r"\342\230\225")
        result = lab.env.exec(["cat", lab.make("out", Case(coffee, 300_000))])
        holds(result.text == "\u2615" * 100_000, "a character was cut or replaced")

    @law()
    def test_merged_streams_keep_their_order(self, lab: Lab) -> None:
        """With `merge_stderr` both streams are stdout, in the order in which the command wrote."""
        script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done"
        result = lab.env.exec(script, merge_stderr=True)
        expected = "".join(f"out{i}\nerr{i}\n" for i in range(1, 6)).encode()
        same_bytes("stdout", expected, result.stdout)
        equal("stderr, its total", (b"", 0), (result.stderr, result.stderr_total))
        argv = lab.env.exec(["sh", "-c", "echo a >&2; echo b"], merge_stderr=True)
        same_bytes("stdout of an argv", b"a\nb\n", argv.stdout)

    @law()
    def test_output_over_the_limit_keeps_both_ends_and_says_so(self, lab: Lab) -> None:
        """Over the limit the first and the last half are kept, and totals tell how much there was."""
        case = Case(PATTERN, 3 * MIB + 7)
        path, limit = lab.make("out", case), 100 * KIB
        result = lab.env.exec(["cat", path], output_limit=limit)
        same_bytes("stdout", case.data[: limit // 2] + case.data[-limit // 2 :], result.stdout)
        equal("truncated and total", (True, len(case.data)), (result.truncated, result.stdout_total))

    @law()
    def test_output_at_the_limit_is_whole(self, lab: Lab) -> None:
        """Exactly as many bytes as the limit are not truncated; one more is."""
        path = lab.make("out", Case(PATTERN, 5000))
        whole = lab.env.exec(["cat", path], output_limit=5000)
        same_bytes("stdout at the limit", PATTERN.fill(5000), whole.stdout)
        equal("truncated at the limit", False, whole.truncated)
        cut = lab.env.exec(["cat", path], output_limit=4999)
        equal("truncated, total one over it", (True, 5000), (cut.truncated, cut.stdout_total))

    @law()
    def test_a_flood_on_both_streams_is_whole(self, lab: Lab) -> None:
        """A command that floods both streams at once never deadlocks and loses nothing."""
        case = Case(PATTERN, lab.scale(1, 3, 8) * MIB)
        path = lab.make("out", case)
        result = lab.env.exec(f"cat {path} & cat {path} >&2; wait", output_limit=_ROOM)
        streams = [result.stdout]
        if lab.env.capabilities.separate_stderr:
            streams.append(result.stderr)
        for stream in streams:
            same_bytes("one of the streams", case.data, stream)

    @law()
    def test_on_output_sees_every_byte(self, lab: Lab) -> None:
        """The chunks given to `on_output` are the output, on the right stream and in order, limit or not."""
        seen: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        path = lab.make("out", Case(PATTERN, 200_000))
        script = f"cat {path}; echo err >&2"
        lab.env.exec(script, output_limit=10, on_output=lambda name, data: seen[name].append(bytes(data)))
        same_bytes("chunks of stdout", PATTERN.fill(200_000), b"".join(seen["stdout"]))
        if lab.env.capabilities.separate_stderr:
            same_bytes("chunks of stderr", b"err\n", b"".join(seen["stderr"]))

    @law()
    def test_an_on_output_that_raises_ends_the_command(self, lab: Lab) -> None:
        """When `on_output` raises, the caller gets that error and the command is killed."""

        def refuse(*chunk: object) -> None:
            raise ZeroDivisionError(len(chunk))

        script = "echo now"
        if lab.env.capabilities.streaming:
            script += f"; sleep 600; echo on >{lab.path('went-on')}"
        with lab.soon("the error"), pytest.raises(ZeroDivisionError):
            lab.env.exec(script, on_output=refuse)
        holds(not lab.exists("went-on"), "the command went on")

    @law("streaming")
    def test_output_arrives_while_the_command_runs(self, lab: Lab) -> None:
        """The first words can be read before the command has written its last."""
        process = lab.env.start(f"echo ready; {UNTIL_GO}; echo done", cwd=lab.root)
        chunks = iter(process)
        same_bytes("the first words", b"ready\n", next(chunks)[1])
        equal("state while it runs", "dispatched", process.state)
        lab.sh(": >go")
        same_bytes("the last words", b"done\n", b"".join(chunk for _, chunk in chunks))
        same_bytes("stdout in the result", b"ready\ndone\n", process.wait(lab.patience).stdout)

    @law()
    def test_iterating_gives_all_output(self, lab: Lab) -> None:
        """Iterating over a process gives every byte once, and the result holds the same."""
        path = lab.make("out", Case(PATTERN, 700_000))
        process = lab.env.start(["cat", path])
        seen = b"".join(chunk for stream, chunk in process if stream == "stdout")
        same_bytes("what was iterated", PATTERN.fill(700_000), seen)
        same_bytes("what the result holds", seen, process.wait(lab.patience).stdout)

    @law(variant=True)
    def test_output_is_no_terminal(self, lab: Lab) -> None:
        """No stream is a terminal: LF stays LF, and nothing is echoed."""
        result = lab.env.exec("for f in 0 1 2; do [ -t $f ] && echo tty; done; cat", stdin=b"a\nb\r\n\x04c")
        same_bytes("stdout", b"a\nb\r\n\x04c", result.stdout)

    @law()
    def test_a_background_child_does_not_hold_the_result(self, lab: Lab) -> None:
        """A child that keeps stdout open does not delay the result, which says that a stream is held."""
        with lab.soon("the result"):
            result = lab.env.exec("sleep 300 & echo $!", timeout=lab.patience)
        lab.env.exec(f"kill {int(result.stdout)}")
        equal("exit code", 0, result.exit_code)
        holds("stdout" in result.held, "the result does not say that stdout is still held")

    @law()
    def test_a_digest_of_much_output_is_right(self, lab: Lab) -> None:
        """Much output through a callback has the digest that the environment itself computes."""
        case = Case(PATTERN, lab.scale(2, 12, 50) * MIB)
        path, digest = lab.make("out", case), hashlib.sha256()
        lab.env.exec(["cat", path], output_limit=0, on_output=lambda _, data: digest.update(data))
        seen = lab.bench.oracle.digest(lab.env, path)
        equal("sha256", seen.sha256, digest.hexdigest())
