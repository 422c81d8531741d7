"""POSIX sh functions that all file scripts share. Pure text.

Written for what 25 shells and busybox without coreutils have in common: no here-documents, no octal arithmetic
(mksh and ksh read 0666 as decimal), no `tee` (busybox returns 0 on a full disk), no `exec` redirects as a test.
Outcomes are records that hold a nonce, never exit codes: shells use 1, 2, 126 and 127 themselves.
"""

from __future__ import annotations


def dense(script: str) -> str:
    """The script without comment lines and indentation: some backends send it with every call."""
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


PROLOGUE = r"""
POSIXLY_CORRECT=1; \set +e +u +x +f +v +C
\unset -f unset set command test printf echo cat cd rm mv ls wc read trap exit eval export kill 2>/dev/null
\unset -f true false chmod umask head tail stat cp ln chown sync dd df tr cmp readlink mkdir rmdir 2>/dev/null
\unalias -a 2>/dev/null
unset POSIXLY_CORRECT CDPATH IFS ENV BASH_ENV QUOTING_STYLE
[ -n "${ZSH_VERSION-}" ] && emulate sh
LC_ALL=C; export LC_ALL
if [ -n "${BASH_VERSION-}" ]; then trap - DEBUG ERR RETURN; set +E +T +o pipefail; shopt -u expand_aliases; fi
N=$1; shift
nl='
'
"""
"""Undoes what inherited settings, functions, aliases and traps do to a script; takes the nonce off the arguments."""

RECORDS = r"""
# Field separator is NUL: no name can hold one.
rec() { printf '\n%s{' "$N"; printf '\000%s' "$@"; printf '\000}%s\n' "$N"; }
# Ends the script where a tool that nothing replaces is missing, naming it.
need() {
  lack=
  for need; do command -v "$need" >/dev/null 2>&1 || lack="$lack $need"; done
  [ -z "$lack" ] && return
  printf '\n%s lacks%s\n' "$N" "$lack" >&2
  exit 0
}
"""

PATHS = r"""
# Sets E to why the path $1 cannot be reached; empty when it can. Paths begin with / or ./
why() {
  E= w=$1 q=
  case $w in /*) q=/;; esac
  while [ "$w" ]; do
    case $w in */*) c=${w%%/*}; w=${w#*/};; *) c=$w; w=;; esac
    [ "$c" ] || { [ "$q" ] || q=/; continue; }
    if [ "$q" ] && [ ! -d "$q" ]; then absent "$q"; [ "$E" ] || E=ENOTDIR; return; fi
    if [ "$q" ] && [ ! -x "$q" ]; then E=EACCES; return; fi
    case $q in ''|*/) q=$q$c;; *) q=$q/$c;; esac
  done
  absent "$q"
  [ "$E" ] || case $1 in */) [ -d "$q" ] || E=ENOTDIR;; esac
}
# Sets E when nothing can be reached under the name $1, whose directory is there.
absent() {
  [ -e "$1" ] && return
  E=ENOENT a=$1 k=0
  while [ -L "$a" ]; do
    k=$((k+1)); [ "$k" -le 40 ] || { E=ELOOP; return; }
    hop "$a" || return
    a=$H
  done
}
# Sets H to where the symbolic link $1 leads.
hop() {
  need readlink
  H=$(readlink "$1" 2>/dev/null; echo x); H=${H%x}; H=${H%"$nl"}
  case $H in '') return 1;; /*) ;; *) case $1 in */*) H=${1%/*}/$H;; esac;; esac
}
# Follows the symbolic links at the end of $1: P is the file, D its directory with a slash. At most 40, as Linux.
resolve() {
  P=$1 k=0 E=
  while :; do
    case $P in
      */) P=${P%/}/.;;
    esac
    D=${P%/*}/
    [ -L "$P" ] || return 0
    k=$((k+1)); [ "$k" -le 40 ] || { E=ELOOP; return 1; }
    hop "$P" || { E=EACCES; return 1; }
    P=$H
  done
}
there() { [ -e "$1" ] || [ -L "$1" ]; }
# Sets R to the physical path of the directory $1, without a slash at its end, so that the root is empty.
phys() {
  R=$(cd -P "$1" 2>/dev/null && pwd -P && echo x); R=${R%"$nl"x}
  [ "$R" ] || return 1
  R=${R%/}
}
"""

DIGESTS = r"""
# Reads stdin with the tool $1, prints what it prints.
digest() {
  case $1 in
    sha256sum) sha256sum;;
    openssl) openssl dgst -sha256 -r;;
    shasum) shasum -a 256;;
    sha256) sha256 -q;;
    python3) python3 -IS -c 'import hashlib,sys
h=hashlib.sha256()
for b in iter(lambda:sys.stdin.buffer.read(1048576),b""):h.update(b)
print(h.hexdigest())';;
    cksum) cksum;;
  esac 2>/dev/null
}
# Sets TOOLS, best first, for $1 bytes: openssl hashes five times as fast as sha256sum and takes longer to start.
tools() {
  if [ "$1" -lt 1500000 ]; then t='sha256sum openssl'; else t='openssl sha256sum'; fi
  TOOLS=
  for b in $t shasum sha256 python3 cksum; do command -v "$b" >/dev/null 2>&1 && TOOLS="$TOOLS $b"; done
}
# Whether $2 looks like a sum of the tool $1: a tool may print nothing and return 0.
sane() {
  case $2 in ''|*[!0-9a-f]*) return 1;; esac
  [ "$1" = cksum ] || [ "${#2}" -eq 64 ]
}
# Sets SUM and BY for the file $1 of $2 bytes; BY=none where no tool works. The name never reaches a tool.
hash() {
  SUM= BY=none
  tools "$2"
  for b in $TOOLS; do
    h=$(digest "$b" <"$1"); h=${h%% *}
    sane "$b" "$h" && { SUM=$h BY=$b; return; }
  done
}
"""

STATUS = r"""
# Sets V to "device:inode:size uid:gid" of $1; empty when there is none.
ident() {
  V=$(stat -c '%d:%i:%s %u:%g' "$1" 2>/dev/null)
  case $V in *:*:*' '*:*) return;; esac
  need ls
  V=$(ls -lnid "$1" 2>/dev/null) || { V=; return; }
  set -f; set -- $V; set +f
  V="0:$1:$6 $4:$5"
}
# Sets Z to the size in an ident.
size_of() { Z=${1%% *}; Z=${Z##*:}; Z=${Z:-0}; }
"""

BLAME = r"""
# Sets m to the options of the mount that the physical path $1 is on, and M to its mount point.
mount_of() {
  m= M=
  [ -r /proc/self/mountinfo ] || return
  while read -r x x x x p o r; do
    case ${1%/}/ in "${p%/}"/*) [ "${#p}" -ge "${#M}" ] && M=$p m=",$o,${r##* },";; esac
  done </proc/self/mountinfo
}
# Sets E to why nothing can be made or renamed in the directory $1.
denied() {
  E=EIO
  f=$(cd -P "$1" 2>/dev/null && pwd -P && echo x); f=${f%"$nl"x}
  [ "$f" ] || { why "$1"; E=${E:-EACCES}; return; }
  mount_of "$f"
  case $m in *,ro,*) E=EROFS; return;; esac
  if [ ! -w "$1" ] || [ ! -x "$1" ]; then E=EACCES; elif full "$1"; then E=ENOSPC; fi
}
# Whether the file system of $1 has no block or no inode left.
full() {
  for o in -Pk -Pi; do
    set -f; set -- "$1" $(df "$o" "$1" 2>/dev/null | tail -n 1); set +f
    [ "${3:-0}" != 0 ] && [ "${5-}" = 0 ] && return 0
  done
  return 1
}
# Whether the file $1 is a mount point.
mounted() {
  f=$(cd -P "${1%/*}/" 2>/dev/null && pwd -P && echo x); f=${f%"$nl"x}
  f=${f%/}/${1##*/}
  mount_of "$f"; [ "$M" = "$f" ]
}
# Sets E to why a write into a file of directory $1 broke off. A quota and a limit on file sizes can only be told by
# what the tool said ($2, from strerror in locale C): no predicate shows them.
broken() {
  case $2 in *uota*) E=EDQUOT; return;; *'ile too large'*) E=EFBIG; return;; esac
  if full "$1"; then E=ENOSPC; return; fi
  case $2 in *'o space left'*) E=ENOSPC;; *) denied "$1";; esac
}
"""

MARK = r"""
# Names of temporary files tell who made them, so that a later write can see that he is gone.
place=- start=- boot=- host=-
birth() { { read -r b <"$1"; } 2>/dev/null || return; b=${b##*") "}; set -f; set -- $b; set +f; case $1 in Z|X) ;; *) B=${20};; esac; }
if B=; birth /proc/1/stat; [ "$B" ]; then
  { read -r boot </proc/sys/kernel/random/boot_id; read -r host </proc/sys/kernel/hostname; } 2>/dev/null
  case $host in *[!A-Za-z0-9._-]*) host=-;; esac
  place=${boot%%-*}.$B.$host
  birth /proc/$$/stat; start=$B
fi
mark=.hermes+$place+$$+$start+$N.
sweep() {
  [ "$start" != - ] || return
  for f in "$1".hermes+*.tmp; do
    there "$f" || continue
    r=${f##*/.hermes+}
    case $r in "$place"+*) r=${r#*+};; *) continue;; esac
    B=; birth "/proc/${r%%+*}/stat"
    r=${r#*+}
    [ "$B" = "${r%%+*}" ] || rm -rf "$f"
  done
}
"""
"""Names of temporary files, and the removal of those whose makers are gone."""

FILL = r"""
# Runs "$@" after $1 with stdout in the new file $1, born 0600 and never an existing one.
fill() {
  f=$1; shift
  { msg=$(set -C; { "$@" 2>&1 >&3 3>&-; } 3>"$f"); rc=$?; } 2>/dev/null
  [ "$rc" -eq 0 ] && return
  if [ -f "$f" ]; then broken "$D" "$msg"; else denied "$D"; fi
  stop "$E" "$msg"
}
flush() {
  [ "$sync" = 1 ] || return 0
  if command -v fsync >/dev/null 2>&1; then fsync "$@"; else sync "$@"; fi 2>/dev/null
  return 0
}
"""
"""New private files; needs `stop` of the script, and the directory in D."""
