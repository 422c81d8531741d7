"""The script that applies changes to files: prepare all, commit all, check all, or put everything back. Pure text.

Arguments: NONCE MANIFEST SYNC COUNT WRITES, then six per change: OP PATH DST COND MODE FLAGS.

* OP is W (write), R (remove), M (move), D (make a directory), L (make a symbolic link with the text DST) or E (expect,
  COND holds the condition).
* COND is empty, ``absent``, or the SHA-256 that the file must have.
* MODE is octal or empty, and may have a blank and UID:GID behind it. FLAGS are letters: p make parents, k b r hard links keep / break / refuse, s never in place,
  f remove with all in it, o overwrite, d the path ended with a slash, x no symbolic link may be on the way.
* MANIFEST has "SIZE SHA256 CKSUM " for every write, or is ``-``: then it follows the content on stdin, with its length
  and the nonce behind it, since the size of an iterator is not known before its end. Content that was cut off on the
  way has no such end, so that a killed client leaves the old file.

stdin holds the contents of all writes, one after the other.
"""

from __future__ import annotations

from ._script_apply import APPLY
from ._script_common import BLAME, DIGESTS, FILL, MARK, PATHS, PROLOGUE, RECORDS, STATUS, dense

_SETUP = r"""
manifest=$1 sync=$2 count=$3 writes=$4; shift 4
um=$(umask); umask 077
i=0 phase=prepare bundle= off=0 out=
# Keeps the values of change $i under numbered names, and gets them back.
save() {
  eval "op$i=\$op P$i=\$P D$i=\$D T$i=\$T K$i= X$i=\$X V$i=\$V Z$i=\$size s$i=\$sha c$i=\$crc y$i=\$inplace"
  eval "f$i=\$flags q$i=\$cond S$i=\$seen Q$i=\$Q state$i=ready by$i=\$BY m$i=\$mode src$i=\$S"
}
load() {
  eval "op=\$op$i P=\$P$i D=\$D$i T=\$T$i K=\$K$i X=\$X$i V=\$V$i size=\$Z$i sha=\$s$i crc=\$c$i inplace=\$y$i"
  eval "flags=\$f$i cond=\$q$i seen=\$S$i Q=\$Q$i state=\$state$i BY=\$by$i mode=\$m$i S=\$src$i"
}
# Ends with the error $1 at change $i, and everything as it was. $2 is for people.
stop() {
  code=$1 note=$2 at=$i lost=
  undo
  rec fail "$code" "$at" "$note" "$lost"
  clean
  phase=over
  exit 0
}
clean() {
  [ -z "$bundle" ] || rm -f "$bundle"
  [ -z "$T" ] || rm -f "$T"
  i=1
  while [ "$i" -le "$count" ]; do eval "t=\${T$i-}"; [ -z "$t" ] || rm -f "$t"; i=$((i+1)); done
}
leave() { r=$?; [ "$phase" = over ] || { undo; clean; }; trap - 0; exit "$r"; }
# EXIT alone leaves the temporary file in five shells; without the saved status mksh exits 0 after a signal.
trap leave 0; trap 'exit 129' 1; trap 'exit 130' 2; trap 'exit 141' 13; trap 'exit 143' 15
"""

_STAGE = r"""
slice() { [ "$size" -eq 0 ] || tail -c +$((off+1)) <"$bundle" | head -c "$size"; }
# Takes the manifest off the end of the file $1; the file ends before it then, unless it is the bundle.
trailer() {
  need head tail
  ident "$1"; size_of "$V"; total=$Z
  t=$(tail -c 27 <"$1" 2>/dev/null)
  case $t in 1?????????" $N") ;; *) stop cut "$total";; esac
  t=$((${t%% *}-1000000000)); total=$((total-t-27))
  manifest=$(tail -c $((t+27)) <"$1" | head -c "$t")
  [ "$1" = "$bundle" ] && return
  dd if=/dev/null of="$1" bs=1 seek="$total" 2>/dev/null
  ident "$1"; size_of "$V"
  [ "$Z" = "$total" ] && return
  T2=$1; T=$1.tmp; fill "$T" head -c "$total" <"$T2"; mv -f "$T" "$T2"; T=$T2
}
take() {
  size=${manifest%% *}; manifest=${manifest#* }
  sha=${manifest%% *}; manifest=${manifest#* }
  crc=${manifest%% *}; manifest=${manifest#* }
}
stage() {
  sweep "$D"
  T=$D$mark$i.tmp
  if [ "$writes" -eq 1 ]; then
    fill "$T" cat
    [ "$manifest" != - ] || trailer "$T"
    take
  else
    if [ -z "$bundle" ]; then
      bundle=$D${mark}0.tmp; fill "$bundle" cat
      [ "$manifest" != - ] || trailer "$bundle"
    fi
    take
    need head tail
    fill "$T" slice
    off=$((off+size))
  fi
  verify "$T" "$sha" || stop verify "$Z $SUM $BY"
}
# Whether the file $1 has the size and digest that the caller's bytes have.
verify() {
  ident "$1"; size_of "$V"
  [ "$Z" = "$size" ] || { SUM=- BY=size; return 1; }
  hash "$1" "$size"
  case $BY in
    none) return 0;;
    cksum) [ "$crc" = - ] && { BY=none; return 0; }; [ "$SUM" = "$crc" ];;
    *) [ "$SUM" = "$sha" ];;
  esac
}
"""

_PREPARE = r"""
# The digest that the caller expects, of the file $1.
expect() {
  seen=
  case $cond in
    '') return;;
    absent) there "$1" && stop EEXIST; return;;
  esac
  { [ -f "$1" ] && [ ! -L "$1" ]; } || { there "$1" && stop changed 'is no regular file'; stop changed 'does not exist'; }
  need ls
  seen=$(ls -lnid "$1" 2>/dev/null)
  ident "$1"; size_of "$V"; hash "$1" "$Z"
  case $BY in none|cksum) stop nohash;; esac
  [ "$SUM" = "$cond" ] || stop changed "$SUM"
}
# With flag x: the directories $@, which end in a slash, must be physical paths.
straight() {
  case $flags in *x*) ;; *) return;; esac
  for d; do phys "$d" && [ "$R/" = "$d" ] || stop changed 'is reached through a symbolic link now'; done
}
same() { [ -z "$seen" ] || [ "$(ls -lnid "$1" 2>/dev/null)" = "$seen" ]; }
# Octal digits of a mode as ls prints it, without octal arithmetic.
octal() {
  r=${1#?} oct= hi=0
  for w in u g o; do
    d=0
    case $r in r*) d=4;; esac; r=${r#?}
    case $r in w*) d=$((d+2));; esac; r=${r#?}
    case $r in [xst]*) d=$((d+1));; esac
    case $w$r in u[sS]*) hi=$((hi+4));; g[sS]*) hi=$((hi+2));; o[tT]*) hi=$((hi+1));; esac
    r=${r#?}
    oct=$oct$d
  done
  oct=$hi$oct
}
# Makes the directory $1 and its parents; Q has those that were made, one after the other, for undo.
parents() {
  q=${1%/} Q=$q
  need mkdir
  while w=${q%/*} && [ "$w" != "$q" ] && [ "$w" ] && ! there "$w"; do q=$w; Q=$Q$nl$q; done
  ( umask "$um"; mkdir -p "$1" 2>/dev/null ) && return
  a=${q%/*}; a=${a:-/}
  why "$a/"
  [ "$E" ] || denied "$a"
  stop "$E"
}
# Owner and mode of the old file go to the temporary one; what cannot be restored makes the write go in place.
dress() {
  need chmod
  if [ -z "$X" ]; then
    given
    if [ "$mode" ]; then chmod "$mode" "$T" 2>/dev/null || stop EPERM; else ( umask "$um"; chmod =rw "$T" ); fi
    return
  fi
  case $acl in
    *+) cp --attributes-only --preserve=mode,ownership,xattr "$P" "$T" 2>/dev/null || { inplace=1; return; };;
  esac
  [ "${V#* }" = "$own" ] || chown "$own" "$T" 2>/dev/null || chown ":${own#*:}" "$T" 2>/dev/null
  ident "$T"
  if [ "${V#* }" != "$own" ]; then inplace=1; return; fi
  given
  chmod "${mode:-$oct}" "$T" 2>/dev/null || stop EPERM
}
# Ends where the file may not be written in place.
permit() { case $flags in *s*) stop inplace;; esac; }
# Gives the temporary file to the owner that was asked for; another one gets no set-user-ID and set-group-ID.
given() {
  [ "$give" ] || return 0
  chown "$give" "$T" 2>/dev/null || chown ":${give#*:}" "$T" 2>/dev/null
  ident "$T"
  [ "${V#* }" = "$give" ] && return
  oct=0${oct#?}; [ -z "$mode" ] || mode=0${mode#?}
}
prep_W() {
  case $flags in *x*) [ ! -L "$path" ] || stop changed 'is a symbolic link now';; esac
  resolve "$path" || stop "$E"
  [ -d "$P" ] && stop EISDIR
  if [ -e "$P" ]; then
    [ -f "$P" ] || stop EINVAL 'is no regular file'
    X=1
    need ls
    set -f; set -- $(ls -lnid "$P" 2>/dev/null); set +f
    acl=$2 own=$4:$5; octal "$2"
    case $3/$flags in 1/*) ;; */*k*) inplace=1;; */*r*) stop EMLINK "has $3 hard links";; esac
    [ -w "$P" ] || { denied "$D"; [ "$E" = EROFS ] || E=EACCES; stop "$E"; }
  elif [ ! -d "$D" ]; then
    why "$D"
    case $E$flags in ENOENT*p*) there "${D%/}" && stop ENOENT; parents "$D";; *) stop "${E:-ENOTDIR}";; esac
  fi
  straight "$D"
  expect "$P"
  stage
  by=$BY
  [ "$inplace" ] || dress
  [ -z "$inplace" ] || permit
  flush "$T"
  [ "$writes" -eq 1 ] || different
  ident "$T"; BY=$by
}
# Ends when an earlier write goes to the same name, or in place to the same file under another name.
different() {
  phys "$D"; a=$R/${P##*/} b=
  [ -z "$inplace" ] || { ident "$P"; b=$V; }
  eval "name$i=\$a inode$i=\$b"
  j=1
  while [ "$j" -lt "$i" ]; do
    eval "c=\${name$j-} d=\${inode$j-}"
    [ "$c" != "$a" ] || stop twice
    [ -z "$b" ] || [ "$d" != "$b" ] || stop twice
    j=$((j+1))
  done
}
prep_R() {
  P=$path D=${path%/*}/
  there "$P" || { why "$P"; stop "$E"; }
  straight "$D"
  X=1
  if [ -d "$P" ] && [ ! -L "$P" ]; then
    X=2
    case $flags in *f*) ;; *) empty "$P" || stop ENOTEMPTY;; esac
  else
    case $flags in *d*) stop ENOTDIR;; esac
  fi
  expect "$P"
}
empty() {
  for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do there "$f" && return 1; done
  return 0
}
prep_M() {
  S=$path P=$dst D=${dst%/*}/
  there "$S" || { why "$S"; stop "$E"; }
  case $flags in *d*) [ -d "$S" ] || stop ENOTDIR;; esac
  [ -d "$D" ] || { why "$D"; stop "${E:-ENOTDIR}" dst; }
  straight "${S%/*}/" "$D"
  if there "$P"; then
    X=1
    case $flags in *o*) ;; *) stop EEXIST dst;; esac
    phys "${S%/*}/"; a=$R/${S##*/}
    phys "$D"
    if [ "$a" = "$R/${P##*/}" ]; then X=itself
    elif [ -d "$P" ] && [ ! -L "$P" ]; then
      X=2
      { [ -d "$S" ] && [ ! -L "$S" ]; } || stop EISDIR dst
      empty "$P" || stop ENOTEMPTY dst
    elif [ -d "$S" ] && [ ! -L "$S" ]; then stop ENOTDIR dst
    fi
  fi
  expect "$S"
  [ -d "$S" ] && [ ! -L "$S" ] || return
  a=$(cd -P "$S" 2>/dev/null && pwd -P) b=$(cd -P "$D" 2>/dev/null && pwd -P)
  case $b/ in "$a"/*) stop EINVAL 'is inside itself';; esac
}
prep_L() {
  S=$dst P=$path D=${path%/*}/
  [ -d "$D" ] || { why "$D"; stop "${E:-ENOTDIR}"; }
  straight "$D"
  there "$P" && stop EEXIST
  case $flags in *d*) stop ENOENT;; esac
}
prep_E() {
  P=$path D=${path%/*}/ X=1
  expect "$P"
}
prep_D() {
  P=$path D=${path%/*}/
  if there "$P"; then
    case $flags in *p*) [ -d "$P" ] && return;; esac
    stop EEXIST
  fi
  case $flags in *p*) parents "$P/"; return;; esac
  [ -d "$D" ] || { why "$D"; stop "${E:-ENOTDIR}"; }
  ( umask "$um"; mkdir "$P" 2>/dev/null ) || { denied "$D"; stop "$E"; }
  Q=$P
}
"""

_MAIN = r"""
S=
while [ "$#" -gt 0 ]; do
  i=$((i+1))
  op=$1 path=$2 dst=$3 cond=$4 mode=${5%% *} give=${5#"${5%% *}"} flags=$6
  give=${give# }
  shift 6
  case $op in W) need cat mv;; R) need rm rmdir;; M) need mv;; D) need mkdir;; esac
  P= D= T= K= X= V= size=0 sha= crc= inplace= seen= Q= BY=none state= acl= own= oct=
  prep_"$op"
  save
done
phase=commit i=0
while [ "$i" -lt "$count" ]; do
  i=$((i+1))
  load
  do_"$op"
  a=1; [ -z "$inplace" ] || a=0
  n=0; [ "$X" ] || n=1
  [ "$op" != D ] || { n=0; [ -z "$Q" ] || n=1; }
  out="$out $BY $n $a"
done
phase=over
[ -z "$bundle" ] || rm -f "$bundle"
i=0
while [ "$i" -lt "$count" ]; do
  i=$((i+1)); eval "K=\$K$i"
  [ -z "$K" ] || rm -rf "$K"
done
trap '' 1 2 13 15
rec ok $out
"""

COMMIT_SCRIPT = dense(
    PROLOGUE + RECORDS + PATHS + DIGESTS + STATUS + BLAME + FILL + MARK + _SETUP + _STAGE + _PREPARE + APPLY + _MAIN
)

_FIND = r"""
trap - 0
# Each argument is a directory: "d" and it alone, "t" and all below it. Tells what was removed, and what has to stay.
kind=$1 kept=$2
shift 2
search() {
  r=${1##*/.hermes+}
  there "$1" || return
  case $1 in *.tmp) ;; *.bak) [ "$kept" = b ] || return;; *) return;; esac
  [ "$start" != - ] || { rec busy "$1"; return; }
  case $r in "$place"+*) r=${r#*+};; *) rec busy "$1"; return;; esac
  B=; birth "/proc/${r%%+*}/stat"
  r=${r#*+}
  if [ "$B" = "${r%%+*}" ]; then rec busy "$1"; else rm -rf "$1" && rec removed "$1"; fi
}
for dir; do
  if [ "$kind" = t ] && command -v find >/dev/null 2>&1; then
    find "$dir" -name '.hermes+*' -print 2>/dev/null | while read -r f; do search "$f"; done
  else
    for f in "${dir%/}"/.hermes+*; do search "$f"; done
  fi
done
rec ok
"""

FIND_SCRIPT = dense(PROLOGUE + RECORDS + PATHS + MARK + _SETUP + _FIND)
"""Removes what dead writers left. Arguments: NONCE - 0 0 0 KIND KEPT DIRECTORY..."""

_SWEEP = r"""
trap - 0
for path; do resolve "$path" && sweep "$D"; done
"""

SWEEP_SCRIPT = dense(PROLOGUE + RECORDS + PATHS + MARK + _SETUP + _SWEEP)
"""Clears what killed writers left. Arguments: those of the write script up to WRITES, then paths."""
