"""POSIX sh text for the private directory of staged transport: open, look, follow, kill, read, erase. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from . import _shell
from ._blocks import BLOCK
from ._kill_script import KILL_SCRIPT
from ._launch import COMMAND_ID_VARIABLE

DIRECTORY_PREFIX = ".hermes-env."
LEASE_SECONDS = 3600
"""Age of a lease after which another client may remove the directory, if no script of it runs any more."""
PIECE = 1 << 16
"""Output is read back in multiples of this many bytes."""
ENCODERS = {"base64": "base64", "od": "od -An -v -tx1"}
"""Spelled without options where possible: the only forms that every tool set has."""

SIZE = r"""
_h_size() {
  _h_s=0; [ -s "$1" ] || return 0
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
_h_old() {
  l=; [ -f "$d/lease" ] && { read -r l <"$d/lease" || l=; } 2>/dev/null
  case $l in ''|*[!0-9]*) ( echo "$now" >"$d/lease" ) 2>/dev/null; return 1;; esac
  [ "$((now - l))" -gt """
    + str(LEASE_SECONDS)
    + r""" ]
}
for c in mkdir rm; do
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
  _h_old && _h_old || continue
  for p in "$d"/*.pid; do
    q=; [ -f "$p" ] && read -r q <"$p"
    [ -n "$q" ] && _h_alive "$q" && continue 2
  done
  rm -rf -- "$d"
done
_h_say home "$e" "$_h_d"
"""
)
"""A lease is read twice before it counts as old: whoever renews it meanwhile shows the shell, which reads byte by byte,
a line without its end, or one made of two."""

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
_h_sums() { [ ! -f "$1" ] || _h_blocks "$2" <"$1"; }
_h_blocks() {
  _h_j=$1
  while [ "$_h_j" -gt 0 ]; do
    if [ "$_h_j" -gt $((_h_b * @PIECE@)) ]; then dd bs=@PIECE@ count="$_h_b"; else head -c "$_h_j"; fi 2>/dev/null |
      { openssl dgst -sha256 -r || sha256sum || shasum -a 256; } 2>/dev/null
    _h_j=$((_h_j - _h_b * @PIECE@))
  done
}
_h_finish() {
  echo "$* ." >"$_h_d/$_h_i.rc"
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
if mkdir "$_h_d/$_h_i.claim"; then echo fenced . >"$_h_d/$_h_i.rc"; _h_say fenced; exit 0; fi
_h_r=
[ ! -f "$_h_d/$_h_i.rc" ] || read -r _h_r <"$_h_d/$_h_i.rc"
# Without the dot it is still being written.
case $_h_r in *' .') _h_r=${_h_r% .};; *) _h_r=;; esac
if [ -z "$_h_r" ]; then
  _h_p=; read -r _h_p <"$_h_d/$_h_i.pid"
  if [ ! -d "$_h_d/$_h_i.claim" ]; then _h_say lost; exit 0; fi
  [ -n "$_h_p" ] || { _h_say starting; exit 0; }
  if _h_alive "$_h_p"; then _h_say running; exit 0; fi
fi
_h_report ${_h_r:-dead}
"""

_KILL = r"""
umask 077; _h_n=$1 _h_d=$2 _h_i=$3 _h_g=$4
( true >"$_h_d/$_h_i.stop" ) 2>/dev/null
_h_x=no; [ -f "$_h_d/$_h_i.stop" ] && _h_x=yes
_h_lease 2>/dev/null
if mkdir "$_h_d/$_h_i.claim" 2>/dev/null; then
  echo fenced . >"$_h_d/$_h_i.rc"; echo "killed 0 left 0"; _h_say done; exit 0
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

_PIECE = r"""
_h_piece() {
  if command -v dd >/dev/null; then dd if="$1" bs=@PIECE@ skip="$2" count="$3" | _h_encode
  else tail -c "+$(($2 * @PIECE@ + 1))" "$1" | head -c "$(($3 * @PIECE@))" | _h_encode; fi
}
""".replace("@PIECE@", str(PIECE))

_READ = r"""
_h_n=$1; exec 2>/dev/null
_h_say piece; _h_piece "$2" "$3" "$4"
_h_say end
"""

_FOLLOW = r"""
_h_n=$1 _h_d=$2 _h_i=$3; exec 2>/dev/null
_h_lease
_h_size "$_h_d/$_h_i.out"; _h_o=$_h_s
_h_size "$_h_d/$_h_i.err"; _h_say status "$_h_o" "$_h_s" running
_h_say out; [ "$_h_o" -eq 0 ] || _h_piece "$_h_d/$_h_i.out" "$4" "$6"
_h_say err; [ "$_h_s" -eq 0 ] || _h_piece "$_h_d/$_h_i.err" "$5" "$6"
_h_say end
"""

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


def encoder_text(encoder: str) -> str:
    """The shell function that encodes output."""
    return f"_h_encode() {{ {ENCODERS[encoder]}; }}\n"


def open_text(nonce: str, name: str) -> str:
    """Make the private directory, sweep expired ones, and say where it is and how output is encoded."""
    return _service(_OPEN, nonce, name)


def renew_text(nonce: str, home: str) -> str:
    """Touch the lease; make the directory again when it is gone."""
    return _service(_RENEW, nonce, home)


def look_text(nonce: str, home: str, command_id: str, inline: int, encoder: str, *, sums: bool = False) -> str:
    """Tell what became of a command. One that has not started never will: the look takes its claim."""
    script = encoder_text(encoder) + REPORT + _LOOK
    return _service(script, nonce, home, command_id, str(inline), str(_block_pieces(sums=sums)))


def _block_pieces(*, sums: bool) -> int:
    return BLOCK // PIECE if sums else 0


def kill_text(nonce: str, home: str, command_id: str, grace: float) -> str:
    """End a command's tree, or take its claim so that it never starts."""
    tenths = str(min(int(grace * 10), 36_000))
    return _service(_KILL, nonce, home, command_id, tenths)


def read_text(nonce: str, path: str, skip: int, count: int, encoder: str) -> str:
    """Encode `count` pieces of an output file, `skip` pieces from its start."""
    return _service(encoder_text(encoder) + _PIECE + _READ, nonce, path, str(skip), str(count))


def follow_text(nonce: str, home: str, command_id: str, skip: tuple[int, int], count: int, encoder: str) -> str:
    """Encode what a running command has written: of each stream `count` pieces, `skip` pieces from its start."""
    script = encoder_text(encoder) + SIZE + _PIECE + _FOLLOW
    return _service(script, nonce, home, command_id, *map(str, skip), str(count))


def erase_text(nonce: str, home: str, ids: Iterable[str]) -> str:
    """Remove the files of commands and keep their claims: a late dispatch finds that it must not run."""
    return _service(_ERASE, nonce, home, *ids)


def remove_text(nonce: str, home: str) -> str:
    """Remove the private directory."""
    return _service(_REMOVE, nonce, home)


def dispatch_text(home: str, command_id: str) -> str:
    """The constant text that starts a staged command."""
    return f"exec /bin/sh {_shell.quote(f'{home}/{command_id}.sh')} </dev/null"
