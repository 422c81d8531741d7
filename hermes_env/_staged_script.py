"""POSIX sh text of staged transport: the private directory, the fenced command, looking, killing and erasing. Pure.

Files of one command, all in the client's own 0700 directory and made under ``umask 077``::

    ``ID.sh``  the command's script: variables, arguments and user text; unlinked before the command runs
    ``ID.in``  stdin; opened and unlinked before the command runs
    ``ID.cmd`` user text too long for an argument; opened and unlinked before the command runs
    ``.claim`` directory: whoever makes it decides whether the command runs; nobody else ever can
    ``.pid``   process id of the script; ``.stop`` asks a script that has not started the command to give up
    ``.out``   stdout, ``.err`` stderr
    ``.rc``    exit code or the reason why nothing ran, in place by rename
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from . import _shell
from ._kill_script import KILL_SCRIPT
from ._launch import COMMAND_ID_VARIABLE

if TYPE_CHECKING:
    from ._command import Command

DIRECTORY_PREFIX = ".hermes-env."
LEASE_SECONDS = 3600
"""Age of a lease after which another client may remove the directory, if no script of it runs any more."""
PIECE = 1 << 16
"""Output is read back in multiples of this many bytes."""
BLOCK = 64 * PIECE
"""Downloads are checked in blocks of this many bytes."""
ENCODERS = {"base64": "base64", "od": "od -An -v -tx1"}
"""Spelled without options where possible: the only forms that every tool set has."""

SIZE = r"""
_h_size() {
  _h_s=0; [ -f "$1" ] || return 0
  if command -v wc >/dev/null 2>&1; then _h_s=$(($(wc -c <"$1"))); return; fi
  _h_s=$(LC_ALL=C ls -ln -- "$1"); set -- $_h_s; _h_s=$5
}
"""
"""Sets ``_h_s`` to the size of a file, 0 when it is not there."""

COMMON = r"""
_h_say() { echo; echo "$_h_n $*"; }
_h_lease() {
  [ -f "$_h_d/lease" ] || return 1
  _h_t=$(date +%s 2>/dev/null) && echo "$_h_t" >"$_h_d/lease"
}
_h_alive() {
  [ -r /proc/self/stat ] || { kill -0 "$1" 2>/dev/null; return; }
  _h_s=; read -r _h_s 2>/dev/null <"/proc/$1/stat" || return 1
  case ${_h_s##*') '} in Z*|X*) return 1;; esac
}
"""

_OPEN = (
    r"""
umask 077; _h_n=$1
for c in mkdir rm mv; do
  command -v "$c" >/dev/null 2>&1 || { _h_say missing "$c"; exit 0; }
done
command -v wc >/dev/null 2>&1 || command -v ls >/dev/null 2>&1 || { _h_say missing wc or ls; exit 0; }
e=
for c in base64 od; do
  if [ -z "$e" ] && command -v "$c" >/dev/null 2>&1; then e=$c; fi
done
[ -n "$e" ] || { _h_say missing base64 or od; exit 0; }
_h_d=; now=$(date +%s 2>/dev/null)
for t in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "${HOME:-.}" .; do
  case $t in /*) ;; *) t=$(pwd -P)/$t;; esac
  case $t in *[!A-Za-z0-9_./,:@%+-]*) continue;; esac
  if mkdir -m 700 "$t/$2" 2>/dev/null; then
    if ( echo "${now:-0}" >"$t/$2/lease" ) 2>/dev/null && [ -s "$t/$2/lease" ]; then _h_d=$t/$2; break; fi
    rm -rf "$t/$2"
  fi
done
[ -n "$_h_d" ] || { _h_say missing a directory to write in; exit 0; }
for d in "$t"/"""
    + DIRECTORY_PREFIX
    + r"""*; do
  case $now in ''|*[!0-9]*) break;; esac
  [ -d "$d" ] && [ ! -h "$d" ] && [ -w "$d" ] && [ -x "$d" ] || continue
  l=; [ -f "$d/lease" ] && read -r l 2>/dev/null <"$d/lease"
  case $l in ''|*[!0-9]*) ( echo "$now" >"$d/lease" ) 2>/dev/null; continue;; esac
  [ "$((now - l))" -gt """
    + str(LEASE_SECONDS)
    + r""" ] || continue
  for p in "$d"/*.pid; do
    q=; [ -f "$p" ] && read -r q <"$p"
    [ -n "$q" ] && _h_alive "$q" && continue 2
  done
  rm -rf -- "$d"
done
_h_say home "$e" "$_h_d"
"""
)

_RENEW = r"""
umask 077; _h_n=$1 _h_d=$2
[ -f "$_h_d/lease" ] || {
  rm -rf -- "$_h_d"; t=$(date +%s 2>/dev/null); mkdir -m 700 "$_h_d" 2>/dev/null && echo "${t:-0}" >"$_h_d/lease"
}
_h_lease
[ -f "$_h_d/lease" ] && _h_say ok
"""

REPORT = (
    SIZE
    + r"""
_h_report() {
  _h_size "$_h_d/$_h_i.out"; _h_o=$_h_s
  _h_size "$_h_d/$_h_i.err"; _h_e=$_h_s
  _h_say status "$_h_o" "$_h_e" "$@"
  if [ "$((_h_o + _h_e))" -le "$_h_l" ]; then
    _h_say out; [ "$_h_o" -eq 0 ] || _h_encode <"$_h_d/$_h_i.out"
    _h_say err; [ "$_h_e" -eq 0 ] || _h_encode <"$_h_d/$_h_i.err"
  elif [ "$_h_b" -gt 0 ]; then
    _h_say outsum; _h_sums "$_h_d/$_h_i.out" "$_h_o"
    _h_say errsum; _h_sums "$_h_d/$_h_i.err" "$_h_e"
  fi
  _h_say end
}
_h_sums() {
  _h_j=0
  while [ "$_h_j" -lt "$2" ]; do
    _h_s=$(($2 - _h_j))
    dd if="$1" bs=@PIECE@ skip=$((_h_j / @PIECE@)) count="$_h_b" 2>/dev/null |
      if [ "$_h_s" -lt $((_h_b * @PIECE@)) ]; then head -c "$_h_s"; else cat; fi |
      { sha256sum || shasum -a 256 || openssl dgst -sha256 -r; } 2>/dev/null
    _h_j=$((_h_j + _h_b * @PIECE@))
  done
}
_h_finish() {
  echo "$@" >"$_h_d/$_h_i.tmp" && mv -f "$_h_d/$_h_i.tmp" "$_h_d/$_h_i.rc"
  _h_report "$@"
  exit 0
}
_h_held() {
  _h_k=
  for _h_f in $(grep -ls -e "@MARK@=$_h_i" /proc/[0-9]*/environ); do
    _h_f=${_h_f%environ}fd
    if [ "$_h_f/1" -ef "$_h_d/$_h_i.out" ]; then _h_k="$_h_k stdout"; fi
    if [ "$_h_f/2" -ef "$_h_d/$_h_i.err" ]; then _h_k="$_h_k stderr"; fi
  done 2>/dev/null
  [ -z "$_h_k" ] || sleep 0.1
}
""".replace("@MARK@", COMMAND_ID_VARIABLE).replace("@PIECE@", str(PIECE))
)

_LOOK = r"""
umask 077; _h_n=$1 _h_d=$2 _h_i=$3 _h_l=$4 _h_b=$5
exec 2>/dev/null
_h_lease
if mkdir "$_h_d/$_h_i.claim"; then echo fenced >"$_h_d/$_h_i.rc"; _h_say fenced; exit 0; fi
_h_r=
if [ ! -f "$_h_d/$_h_i.rc" ]; then
  _h_p=; read -r _h_p <"$_h_d/$_h_i.pid"
  if [ ! -d "$_h_d/$_h_i.claim" ]; then _h_say lost; exit 0; fi
  [ -n "$_h_p" ] || { _h_say starting; exit 0; }
  if _h_alive "$_h_p"; then _h_say running; exit 0; fi
fi
read -r _h_r <"$_h_d/$_h_i.rc"
_h_report ${_h_r:-dead}
"""

_KILL = r"""
umask 077; _h_n=$1 _h_d=$2 _h_i=$3 _h_g=$4
( true >"$_h_d/$_h_i.stop" ) 2>/dev/null
_h_x=no; [ -f "$_h_d/$_h_i.stop" ] && _h_x=yes
_h_lease 2>/dev/null
if mkdir "$_h_d/$_h_i.claim" 2>/dev/null; then
  echo fenced >"$_h_d/$_h_i.rc"; echo "killed 0 left 0"; _h_say done; exit 0
fi
_h_c=0
while :; do
  ( set -- "$_h_i" "$_h_g"
@KILL@
  )
  _h_g=0 _h_w=0
  while [ "$_h_w" -lt 8 ]; do
    _h_p=; read -r _h_p 2>/dev/null <"$_h_d/$_h_i.pid"
    [ ! -f "$_h_d/$_h_i.rc" ] || break 2
    # The client had the result already and erased everything.
    if [ "$_h_x" = yes ] && [ ! -f "$_h_d/$_h_i.stop" ]; then break 2; fi
    if [ -n "$_h_p" ] && ! _h_alive "$_h_p"; then break 2; fi
    _h_w=$((_h_w + 1)); sleep 0.05 2>/dev/null || sleep 1
  done
  _h_c=$((_h_c + 1))
  if [ "$_h_c" -ge 5 ] || [ ! -d "$_h_d/$_h_i.claim" ]; then
    [ -z "$_h_p" ] || kill -s KILL "$_h_p" 2>/dev/null
    break
  fi
done
_h_say done
""".replace("@KILL@", KILL_SCRIPT)

_READ = r"""
_h_n=$1; exec 2>/dev/null
_h_say piece
if command -v dd >/dev/null; then dd if="$2" bs=@PIECE@ skip="$3" count="$4" | _h_encode
else tail -c "+$(($3 * @PIECE@ + 1))" "$2" | head -c "$(($4 * @PIECE@))" | _h_encode; fi
_h_say end
""".replace("@PIECE@", str(PIECE))

_ERASE = r"""
_h_n=$1 _h_d=$2; shift 2; umask 077
for i do
  mkdir "$_h_d/$i.claim" 2>/dev/null
  rm -f -- "$_h_d/$i".[!c]* "$_h_d/$i.cmd"
  [ ! -e "$_h_d/$i.sh" ] && [ ! -e "$_h_d/$i.in" ] && [ ! -e "$_h_d/$i.cmd" ] || exit 1
done
_h_say ok
"""

_REMOVE = r"""
_h_n=$1
rm -rf -- "$2"
[ -e "$2" ] || _h_say ok
"""


def service(script: str, *args: str) -> str:
    """Command text that runs one of our scripts, whatever shell gets it and however it arrives."""
    words = " ".join(_shell.quote(arg) for arg in args)
    return f"exec /bin/sh -c {_shell.quote(script)} sh {words} </dev/null"


def _service(script: str, *args: str) -> str:
    return service(COMMON + script, *args)


def _encoder(encoder: str) -> str:
    return f"_h_encode() {{ {ENCODERS[encoder]}; }}\n"


def open_text(nonce: str, name: str) -> str:
    """Make the private directory, sweep expired ones, and say where it is and how output is encoded."""
    return _service(_OPEN, nonce, name)


def renew_text(nonce: str, home: str) -> str:
    """Touch the lease; make the directory again when it is gone."""
    return _service(_RENEW, nonce, home)


def look_text(nonce: str, home: str, command_id: str, inline: int, encoder: str, *, sums: bool = False) -> str:
    """Tell what became of a command. One that has not started never will: the look takes its claim."""
    script = _encoder(encoder) + REPORT + _LOOK
    return _service(script, nonce, home, command_id, str(inline), str(_block_pieces(sums=sums)))


def _block_pieces(*, sums: bool) -> int:
    return BLOCK // PIECE if sums else 0


def kill_text(nonce: str, home: str, command_id: str, grace: float) -> str:
    """End a command's tree, or take its claim so that it never starts."""
    tenths = str(min(int(grace * 10), 36_000))
    return _service(_KILL, nonce, home, command_id, tenths)


def read_text(nonce: str, path: str, skip: int, count: int, encoder: str) -> str:
    """Encode `count` pieces of an output file, `skip` pieces from its start."""
    return _service(_encoder(encoder) + _READ, nonce, path, str(skip), str(count))


def erase_text(nonce: str, home: str, ids: Iterable[str]) -> str:
    """Remove the files of commands and keep their claims: a late dispatch finds that it must not run."""
    return _service(_ERASE, nonce, home, *ids)


def remove_text(nonce: str, home: str) -> str:
    """Remove the private directory."""
    return _service(_REMOVE, nonce, home)


def dispatch_text(home: str, command_id: str) -> str:
    """The constant text that starts a staged command."""
    return f"exec /bin/sh {_shell.quote(f'{home}/{command_id}.sh')} </dev/null"


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
_h_lease
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
if command -v setsid >/dev/null 2>&1; then exec setsid /bin/sh -c 'exec "$@"' sh "$@"; fi
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
        _encoder(encoder),
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
    return f"{head}{_shell.exports(variables)}{enter}{_BECOME}"
