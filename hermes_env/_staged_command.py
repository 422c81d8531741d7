"""POSIX sh text of a staged command: claim, check, open, unlink, run, report. Pure.

Files of one command, all in the client's own 0700 directory and made under ``umask 077``::

    ``ID.sh``  the command's script: variables, arguments and user text; unlinked before the command runs
    ``ID.in``  stdin; opened and unlinked before the command runs
    ``ID.cmd`` user text too long for an argument; opened and unlinked before the command runs
    ``.claim`` directory: whoever makes it decides whether the command runs; nobody else ever can
    ``.pid``   process id of the script; ``.stop`` asks a script that has not started the command to give up
    ``.out``   stdout, ``.err`` stderr
    ``.rc``    exit code or the reason why nothing ran, and a dot that ends it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _shell
from ._launch import COMMAND_ID_VARIABLE
from ._staged_script import COMMON, REPORT, _block_pieces, encoder_text

if TYPE_CHECKING:
    from ._command import Command

_PROLOGUE = r"""\set +e +u +x +f +v +C +a
\unset -f unset set command test printf echo cat cd rm mv ls wc read trap exit eval export kill true umask 2>/dev/null
\unalias -a 2>/dev/null
exec 2>/dev/null
_h_m=$(umask); umask 077
"""

_CLAIM = r"""
mkdir "$_h_d/$_h_i.claim" || { _h_say dup; exit 0; }
echo $$ >"$_h_d/$_h_i.pid" || _h_finish full
rm -f -- "$_h_d/$_h_i.sh"@TRASH@
@CLAIMS@[ ! -e "$_h_d/$_h_i.sh" ] || _h_finish unlink
[ -f "$_h_d/lease" ] || _h_finish home
[ ! -e "$_h_d/$_h_i.stop" ] || _h_finish stopped
"""

_CHECK_STDIN = r"""
[ -f "$_h_d/$_h_i.in" ] || _h_finish open
chmod 600 "$_h_d/$_h_i.in"
_h_size "$_h_d/$_h_i.in"; [ "$_h_s" -eq @SIZE@ ] || _h_finish short
"""

_NORMALISE = r"""
[ "$_h_r" -gt 383 ] && _h_r=$((_h_r - 256))
[ "$_h_r" -gt 255 ] && _h_r=$((_h_r - 128))
_h_held
_h_finish "$_h_r"$_h_k
"""

_BECOME = r"""
if command -v setsid >/dev/null 2>&1; then exec setsid @EXEC@"$@"; fi
exec "$@"
"""
"""A session of its own, so that a kill finds what has left the command's environment and parents."""

_FROM_FILE = (
    '_n=$(printf "\\nx");_n=${_n%x};_s=;_t=;_c=0;while IFS= read -r _l<&8||[ -n "$_l" ];do '
    '_t=$_t$_l$_n;_c=$((_c+1));case $_c in *00)_s=$_s$_t;_t=;;esac;done;exec 8<&-;eval "unset _n _s _t _c _l$_n$_s$_t"'
)
"""Runs a script that is too long for an argument from descriptor 8, and leaves stdin alone."""


def command_script(
    command: Command,
    home: str,
    encoder: str,
    *,
    inline: int,
    stdin_size: int | None,
    trash: Sequence[str] = (),
    claims: Sequence[str] = (),
    sums: bool = False,
) -> bytes:
    """The staged script: claim, check, open, unlink, run, report.

    Args:
        command: What to run; a program text that is its own file must be replaced by `file_program` before.
        home: The private directory.
        encoder: A key of `ENCODERS`.
        inline: Bytes of output up to which the report carries it; more is read back.
        stdin_size: Bytes staged as stdin; None when there is none.
        trash: Ids of ended commands whose files can go.
        claims: Ids of commands so long ended that no dispatch of them can still be under way.
        sums: The report gives digests of output that it does not carry.
    """
    head = f"_h_d={_shell.quote(home)} _h_i={command.id} _h_n={command.nonce} _h_l={inline}"
    head += f" _h_b={_block_pieces(sums=sums)}\n"
    files = "".join(f' "$_h_d"/{old}.[!c]*' for old in trash)
    old_claims = "".join(f' "$_h_d/{old}.claim"' for old in claims)
    check = "" if stdin_size is None else _CHECK_STDIN.replace("@SIZE@", str(stdin_size))
    text = (
        _PROLOGUE,
        head,
        COMMON,
        encoder_text(encoder),
        REPORT,
        _CLAIM.replace("@TRASH@", files).replace("@CLAIMS@", f"rmdir --{old_claims}\n" if claims else ""),
        check,
        _group(command, with_stdin=stdin_size is not None),
        _NORMALISE,
    )
    return "".join(text).encode("ascii")


def is_long(command: Command, limit: int) -> bool:
    """Whether the program text needs a file of its own."""
    return isinstance(command.program, str) and len(command.program.encode("utf-8", "surrogateescape")) > limit


FILE_PROGRAM = ("/bin/sh", "-c", _FROM_FILE, "sh")
"""Stands for a program text that is staged as ``ID.cmd``."""


def _group(command: Command, *, with_stdin: bool) -> str:
    """Open, unlink, and only then run: a group whose redirections must all have worked."""
    staged = [name for name, used in (("in", with_stdin), ("cmd", command.program == FILE_PROGRAM)) if used]
    unlink = "".join(f'rm -f -- "$_h_d/$_h_i.{name}"\n' for name in staged)
    gone = " && ".join(f'[ ! -e "$_h_d/$_h_i.{name}" ]' for name in staged) or "true"
    source = '"$_h_d/$_h_i.in"' if with_stdin else "/dev/null"
    program = ' 8<"$_h_d/$_h_i.cmd"' if "cmd" in staged else ""
    return (
        f"_h_w=open _h_r=\n{{\n_h_w=unlink\n{unlink}if {gone}; then\n_h_w=\n(\n{_body(command)})\n_h_r=$?\nfi\n"
        f'}} <{source} >"$_h_d/$_h_i.out" 9>"$_h_d/$_h_i.err"{program}\n'
        '[ -z "$_h_w" ] || _h_finish "$_h_w"\n'
    )


def _body(command: Command) -> str:
    """What the command's own process does before it becomes the command."""
    argv = command.program if isinstance(command.program, tuple) else ("/bin/sh", "-c", command.program, "sh")
    args = argv if command.cwd is None else (command.nonce, command.cwd, *argv)
    enter = "" if command.cwd is None else _shell.ENTER + "\n"
    variables = {**command.env, COMMAND_ID_VARIABLE: command.id}
    guard = _shell.refuse_yash((*args, *variables.values()), command.nonce)
    errors = "2>&1" if command.merge_stderr else "2>&9"
    head = f'umask "$_h_m"\nexec {errors} 9>&-\n{guard}{_shell.assign_args(args)}\n'
    # Where the program may be missing, a shell tells so, and not setsid.
    become = _BECOME.replace("@EXEC@", "" if argv[0] == "/bin/sh" else "/bin/sh -c 'exec \"$@\"' sh ")
    return f"{head}{_shell.exports(variables)}{enter}{become}"
