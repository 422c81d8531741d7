"""The POSIX script that ends one command with its whole tree, from a second command. Pure.

Three nets: the command's id in the process environment, parent links, and the groups and sessions that its processes
lead. Every hit is stopped, then killed, in rounds until two rounds find nothing: one clean round is never proof,
since a process may be handing its child to a new parent while we look.
"""

from __future__ import annotations

from dataclasses import dataclass

_START = r"""
LC_ALL=C; export LC_ALL; unset IFS
mark="${3:-HERMES_ENV_COMMAND}=$1"; grace=$2; word=${4:+$4 }; hit=' '; killed=' '; me=$$; blind=
add() { case $hit in *" $1 "*) ;; *) [ "$1" = "$me" ] || hit="$hit$1 ";; esac; }
"""
_BY_GREP = r"""
command -v grep >/dev/null 2>&1 || blind=${YASH_VERSION:+unknown}
marked() {
  if command -v grep >/dev/null 2>&1; then
    grep -ls -e "$mark" /proc/[0-9]*/environ 2>/dev/null
    return 0
  fi
  for f in /proc/[0-9]*/environ; do
    while IFS= read -r l || [ -n "$l" ]; do case $l in *"$mark"*) echo "$f"; break;; esac; done <"$f"
  done 2>/dev/null
}
add_marked() { for f in $(marked); do f=${f#/proc/}; add "${f%/environ}"; done; }
"""
# yash reads up to the first NUL only: what it does not find proves nothing.
_BY_BUILTINS = r"""
blind=${YASH_VERSION:+unknown}
seen=' '
add_marked() {
  for f in /proc/[0-9]*/environ; do
    p=${f#/proc/}; p=${p%/environ}
    case $seen in *" $p "*) continue;; esac
    while IFS= read -r l || [ -n "$l" ]; do case $l in *"$mark"*) add "$p"; break;; esac; done <"$f"
    seen="$seen$p "
  done 2>/dev/null
}
"""
_REST = r"""
round() {
  alive=
  add_marked
  for f in /proc/[0-9]*/stat; do
    st=; read -r st 2>/dev/null <"$f" || continue
    p=${f#/proc/}; p=${p%/stat}
    case $st in *') '*) ;; *) continue;; esac
    st=${st##*') '}; set -- $st
    case $1 in Z|X) continue;; esac
    [ "$p" = "$me" ] || [ "$p" = 1 ] && continue
    case $hit in
      *" $p "*) ;;
      *" $2 "*|*" $3 "*|*" $4 "*) hit="$hit$p ";;
      *) continue;;
    esac
    alive="$alive $p"
  done
}
signal() { for p in $alive; do kill -s "$1" "$p" 2>/dev/null; done; }
if [ "$grace" -gt 0 ]; then
  round; signal TERM
  while [ "$grace" -gt 0 ]; do
    round; [ -n "$alive" ] || break
    sleep 0.1 2>/dev/null || sleep 1
    grace=$((grace - 1))
  done
fi
clean=0 rounds=0
while [ "$clean" -lt 2 ] && [ "$rounds" -lt 50 ]; do
  rounds=$((rounds + 1))
  round
  if [ -n "$alive" ]; then
    clean=0; signal STOP; signal KILL
    for p in $alive; do case $killed in *" $p "*) ;; *) killed="$killed$p ";; esac; done
  else
    clean=$((clean + 1))
  fi
done
set -- $killed; n=$#
[ "$clean" -ge 2 ] && echo "${word}killed $n left ${blind:-0}" || { set -- $alive; echo "${word}killed $n left $#"; }
"""
KILL_SCRIPT = _START + _BY_GREP + _REST
"""``$1`` is the command's id, ``$2`` the grace between TERM and KILL in tenths of a second, ``$3`` another variable to
find processes by, ``$4`` a word that goes ahead of the report."""
FORKLESS_KILL = _START + _BY_BUILTINS + _REST
"""The same by builtins only, for a shell that runs already: it works where no process can be started any more. The
grace must be 0, since waiting takes a program. Slower with many processes: their environments are read byte by byte.
"""


@dataclass(frozen=True, slots=True)
class KillReport:
    """What a kill did."""

    killed: int
    """Processes that got the signal."""
    confirmed: bool
    """Two scans in a row found nothing left."""


def parse_kill_report(output: bytes) -> KillReport:
    """Read the last line of the script; anything else is an unconfirmed kill."""
    words = output.strip().rpartition(b"\n")[2].split()
    if len(words) == 4 and words[0] == b"killed" and words[2] == b"left" and words[1].isdigit():
        return KillReport(int(words[1]), confirmed=words[3] == b"0")
    return KillReport(0, confirmed=False)
