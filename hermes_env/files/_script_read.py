r"""The scripts that read contents, states and listings. Pure text.

A content travels as ``\nNONCE R SIZE BY\n``, SIZE raw bytes, ``\nNONCE T SUM\n``: what a login script printed
before is dropped, what got lost shows. An error is a record. A content that is only offered is a record ``block`` with
the digest of each block, and a record ``place`` with path, size and tool.
"""

from __future__ import annotations

from hermes_env._blocks import BLOCK

from ._script_common import DIGESTS, PATHS, PROLOGUE, RECORDS, dense

REFUSE = r"""
fail() { rec fail "$1" "$i" "${2-}" ''; }
# Nothing is opened before it is known to be a regular file: a FIFO would wait for its writer.
usable() {
  if [ -d "$1" ]; then fail EISDIR; return 1; fi
  if [ ! -e "$1" ]; then why "$1"; fail "${E:-ENOENT}"; return 1; fi
  if [ ! -f "$1" ]; then fail EINVAL 'is no regular file'; return 1; fi
  if [ ! -r "$1" ]; then fail EACCES; return 1; fi
}
# Sets BY to the tool that will hash $1 bytes.
pick() { tools "$1"; set -f; set -- $TOOLS; set +f; BY=${1-none}; }
"""

EMIT = r"""
# Prints $1 bytes of stdin, a file at offset 0. Both read the same open file; head may read ahead, nothing follows.
emit() {
  if [ "$1" -gt 1048576 ] && command -v dd >/dev/null 2>&1; then
    dd bs=65536 count=$(($1/65536)) 2>/dev/null
    set -- $(($1%65536))
  fi
  [ "$1" -eq 0 ] || head -c "$1"
}
"""

OFFER = r"""
# Tells where the open file $path can be downloaded, with the digest of each block; not where that can go wrong by its
# name, where it is too small for it, or where it is not read whole.
offer() {
  [ "$place" != - ] && [ -z "$copy" ] && [ "$len" -ge "$place" ] && [ "$len" -eq "$size" ] &&
    command -v dd >/dev/null 2>&1 && command -v head >/dev/null 2>&1 || return
  pick "$len"
  case $BY in none|cksum) return 1; esac
  resolve "$path" && phys "$D" || return
  case $R/${P##*/} in *[!A-Za-z0-9_./,:@%+=~-]*) return 1; esac
  told=
  { blocks "$len" && told=1; } 3<"$path"
  [ "$told" ] && rec place "$R/${P##*/}" "$len" "$BY"
} 2>/dev/null
blocks() {
  left=$1
  while [ "$left" -gt 0 ]; do
    # Only dd leaves off at the end of a block; nothing follows the last one.
    h=$(if [ "$left" -gt @BLOCK@ ]; then exec dd bs=65536 count=@COUNT@; else exec head -c "$left"; fi <&3 | digest "$BY")
    h=${h%% *}
    sane "$BY" "$h" || return
    rec block "$h"
    left=$((left-@BLOCK@))
  done
}
""".replace("@BLOCK@", str(BLOCK)).replace("@COUNT@", str(BLOCK >> 16))

SEND = r"""
part() { if [ "$from" -eq 0 ]; then emit "$len"; else tail -c +$((from+1)) | head -c "$len"; fi; }
# Two openings before anything is read: a file replaced meanwhile is read whole, old or new.
send() {
  opened=
  { opened=1; send_open; } 3<"$1" 4<"$1"
  [ "$opened" ] || { usable "$1" && fail EACCES; }
}
send_open() {
  [ "$len" -eq 0 ] || need head
  [ "$from" -eq 0 ] || need tail
  pick "$len"
  printf '\n%s R %s %s\n' "$N" "$len" "$BY"
  [ "$len" -eq 0 ] || part <&3
  SUM=$(part <&4 | digest "$BY")
  printf '\n%s T %s\n' "$N" "${SUM%% *}"
}
# Files of /proc have size 0 and content: what they hold now is copied, then read.
pseudo() {
  need cat head wc
  one=$(head -c 1 <"$1" 2>/dev/null | wc -c)
  [ "$((one))" -ne 0 ] || return 1
  for d in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm .; do
    [ -d "$d" ] || continue
    copy=$d/.hermes-$N.$i
    ( umask 077; set -C; cat <"$1" >"$copy" ) 2>/dev/null && return
    rm -f "$copy"
  done
  copy=
  fail ENOSPC 'no directory for a temporary copy of a file without a size'
}
i=0 copy=
# Sets len to how much of $path is to be read, and file to where.
measure() {
  file=$path
  if [ ! -s "$path" ] && pseudo "$path"; then [ "$copy" ] || return 1; file=$copy; fi
  size=$(stat -Lc %s "$file" 2>/dev/null) || size=
  case $size in ''|*[!0-9]*) need wc; size=$(($(wc -c <"$file"))) ;; esac
  len=$((size-from)); [ "$len" -gt 0 ] || len=0
}
trap 'r=$?; [ -z "$copy" ] || rm -f "$copy"; trap - 0; exit "$r"' 0
trap 'exit 129' 1; trap 'exit 130' 2; trap 'exit 141' 13; trap 'exit 143' 15
"""

_READ = r"""
place=$1; shift
while [ "$#" -gt 0 ]; do
  i=$((i+1)) path=$1 from=$2 limit=$3 copy=
  shift 3
  usable "$path" || continue
  measure || continue
  [ "$limit" = - ] || [ "$len" -le "$limit" ] || len=$limit
  offer || send "$file"
  [ -z "$copy" ] || rm -f "$copy"
done
rec ok
"""

_SUM = r"""
i=1
usable "$1" || exit 0
size=$(stat -Lc %s "$1" 2>/dev/null) || size=
case $size in ''|*[!0-9]*) need wc; size=$(($(wc -c <"$1"))) ;; esac
hash "$1" "$size"
rec ok "$SUM" "$BY"
"""

STATE = r"""
# Sets st to the state of $1: "s" and what stat says, or "l", fields of ls and seconds; empty when it has gone.
stated() {
  st=$(stat $follow -c '%f %s %u %g %Y %h' "$1" 2>/dev/null)
  case $st in
    [0-9a-f]*' '*' '*' '*' '*' '*) st="s $st"; return;;
  esac
  need ls
  st=$(ls -lnd $follow "$1" 2>/dev/null) || { st=; return; }
  set -f; set -- "$1" $st; set +f
  st="l $2 $3 $4 $5 $6 $(date -r "$1" +%s 2>/dev/null)"
}
"""

_STAT_ONE = r"""
i=1 path=$1 follow=$2
seen() { if [ "$follow" ]; then [ -e "$path" ]; else there "$path"; fi; }
seen && stated "$path"
[ "${st-}" ] || { why "$path"; rec fail "${E:-ENOENT}" 1 '' ''; exit 0; }
H=
[ "$follow" ] || [ ! -L "$path" ] || { need readlink; H=$(readlink "$path"; echo x); H=${H%x}; H=${H%"$nl"}; }
rec ok "$st" "$H"
"""

_LIST = r"""
dir=${1%/}/ follow= all=
[ -d "$dir" ] || { why "$1"; rec fail "${E:-ENOTDIR}" 1 '' ''; exit 0; }
{ [ -r "$dir" ] && [ -x "$dir" ]; } || { rec fail EACCES 1 '' ''; exit 0; }
entry() {
  H=
  [ ! -L "$1" ] || { need readlink; H=$(readlink "$1" 2>/dev/null; echo x); H=${H%x}; H=${H%"$nl"}; }
  rec entry "$st" "${1##*/}" "$H"
}
# One stat for many names, when it gives one line for each.
batch() {
  [ "$#" -gt 0 ] || return
  lines=$(stat -c '%f %s %u %g %Y %h' "$@" 2>/dev/null; echo "$?")
  case $lines in
    *"$nl"0)
      for f; do st="s ${lines%%"$nl"*}"; lines=${lines#*"$nl"}; entry "$f"; done;;
    *)
      for f; do stated "$f"; [ -z "$st" ] || entry "$f"; done;;
  esac
}
set --
for f in "$dir"* "$dir".[!.]* "$dir"..?*; do
  there "$f" || continue
  set -- "$@" "$f"
  [ "$#" -lt 200 ] || { batch "$@"; set --; }
done
batch "$@"
rec ok
"""

_BASE = PROLOGUE + RECORDS + PATHS

READ_SCRIPT = dense(_BASE + DIGESTS + REFUSE + EMIT + OFFER + SEND + _READ)
"""Arguments: NONCE, bytes from which files are not printed but offered for a download (or ``-``), then PATH, OFFSET and
LIMIT (or ``-``) for every file."""
SUM_SCRIPT = dense(_BASE + DIGESTS + REFUSE + _SUM)
"""Arguments: NONCE PATH."""
STAT_SCRIPT = dense(_BASE + STATE + _STAT_ONE)
"""Arguments: NONCE PATH FOLLOW, which is ``-L`` or empty."""
LIST_SCRIPT = dense(_BASE + STATE + _LIST)
"""Arguments: NONCE PATH."""
