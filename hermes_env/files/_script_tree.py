r"""The scripts that look at, read and fill folders. Pure text.

Names travel on stdin, one a line, since no argument list is long enough for them; bytes that a shell could mangle are
``\0ooo`` there, which is what ``printf %b`` turns back. Lines are read from descriptor 4: `read` takes no byte more
than its line, so that contents can follow on the same stream.
"""

from __future__ import annotations

from ._script_common import BLAME, DIGESTS, FILL, MARK, PATHS, PROLOGUE, RECORDS, STATUS, dense
from ._script_read import EMIT, STATE

_NAMES = r"""
# Sets n to the next name.
name() {
  IFS= read -r n <&4 || return
  # yash turns bytes that are not ASCII into others, silently.
  case ${YASH_VERSION+y}$n in y*\\0[23][0-7][0-7]*) printf '\n%s yash\n' "$N" >&2; exit 0;; esac
  case $n in *\\*) n=$(printf '%b' "$n"; echo x); n=${n%x};; esac
}
fail() { rec fail "$1" "${2-}" "${3-}"; exit 0; }
enter() {
  [ -d "$1" ] || { why "$1"; fail "${E:-ENOTDIR}"; }
  cd "$1" 2>/dev/null || fail EACCES
}
# Sets tool to the best hasher that works, for $1 bytes.
choose() {
  tools "$1"; tool=none
  for b in $TOOLS; do
    h=$(printf abc | digest "$b"); h=${h%% *}
    sane "$b" "$h" && { tool=$b; return; }
  done
}
"""

_MANY = r"""
# Calls got FILE SUM TOOL for all files, hashed by one process where no name could upset its output.
many() {
  [ "$#" -gt 0 ] || return 0
  case $* in
    *\\*|*"$nl"*) s=1;;
    *)
      case $tool in
        sha256sum) s=$(sha256sum "$@" 2>/dev/null; echo "$?");;
        openssl) s=$(openssl dgst -sha256 -r "$@" 2>/dev/null; echo "$?");;
        shasum) s=$(shasum -a 256 "$@" 2>/dev/null; echo "$?");;
        *) s=1;;
      esac;;
  esac
  case $s in
    *"$nl"0)
      for f; do
        h=${s%%" "*} s=${s#*"$nl"}
        sane "$tool" "$h" || h=
        got "$f" "$h" "$tool"
      done
      return;;
  esac
  for f; do
    ident "$f"; size_of "$V"
    hash "$f" "$Z"
    got "$f" "$SUM" "$BY"
  done
}
"""

_SEE = r"""
follow=
entry() {
  H=
  [ ! -L "$1" ] || { need readlink; H=$(readlink "$1" 2>/dev/null; echo x); H=${H%x}; H=${H%"$nl"}; }
  rec entry "$st" "${1#./}" "$H"
}
# One stat for many names, when it gives one line for each.
batch() {
  [ "$#" -gt 0 ] || return 0
  lines=$(stat -c '%f %s %u %g %Y %h' "$@" 2>/dev/null; echo "$?")
  case $lines in
    *"$nl"0)
      for f; do st="s ${lines%%"$nl"*}"; lines=${lines#*"$nl"}; entry "$f"; done;;
    *)
      for f; do stated "$f"; [ -z "$st" ] || entry "$f"; done;;
  esac
}
"""

_LOOK = r"""
work() {
  set --
  while name; do
    there "./$n" || continue
    set -- "$@" "./$n"
    [ "$#" -lt 200 ] || { batch "$@"; set --; }
  done
  batch "$@"
}
choose 0
if there "$1"; then enter "$1"; work 4<&0; else cat >/dev/null; fi
rec ok "$tool"
"""

_WALK = r"""
list() {
  d=$1
  set --
  for f in "$d"* "$d".[!.]* "$d"..?*; do
    there "$f" || continue
    set -- "$@" "$f"
    [ "$#" -lt 200 ] || { batch "$@"; set --; }
  done
  batch "$@"
}
walk() {
  { [ -r "$1" ] && [ -x "$1" ]; } || fail EACCES "$1"
  list "$1"
  for g in "$1"*/ "$1".[!.]*/ "$1"..?*/; do
    g=${g%/}
    if [ -d "$g" ] && [ ! -L "$g" ]; then walk "$g/"; fi
  done
}
choose 0
enter "$1"
batch ./.
walk ./
rec ok "$tool"
"""

_SUMS = r"""
got() {
  [ "$2" ] || { [ -f "$1" ] || fail ENOENT "${1#./}"; }
  rec sum "${1#./}" "$2" "$3"
}
work() {
  set --
  while name; do
    f=./$n
    if [ -L "$f" ] || [ ! -f "$f" ]; then fail ENOENT "$n"; fi
    [ -r "$f" ] || fail EACCES "$n"
    set -- "$@" "$f"
    [ "$#" -lt 200 ] || { many "$@"; set --; }
  done
  many "$@"
}
choose "$2"
enter "$1"
work 4<&0
rec ok "$tool"
"""

_GET = r"""
work() {
  while read -r len <&4 && name; do
    f=./$n
    if [ -L "$f" ] || [ ! -f "$f" ]; then fail ENOENT "$n"; fi
    [ -r "$f" ] || fail EACCES "$n"
    printf '\n%s R %s -\n' "$N" "$len"
    [ "$len" -eq 0 ] || emit "$len" <"$f"
    printf '\n%s T -\n' "$N"
  done
}
need head
enter "$1"
work 4<&0
rec ok
"""

_PUT = r"""
root=$1 rootmode=$2 parents=$3 sync=$4 single=$5
um=$(umask); umask 077
S= D=./ n= k=0 last=
stop() { rec fail "$1" "$n" "${2-}"; exit 0; }
leave() { r=$?; [ -z "$S" ] || rm -rf "$S"; trap - 0; exit "$r"; }
trap leave 0; trap 'exit 129' 1; trap 'exit 130' 2; trap 'exit 141' 13; trap 'exit 143' 15
make_root() {
  D=${root%/*}/
  there "$root" && { why "$root/"; stop "${E:-ENOTDIR}"; }
  if [ ! -d "$D" ]; then
    [ "$parents" ] || { why "$D"; stop "${E:-ENOTDIR}"; }
    ( umask "$um"; mkdir -p "$D" 2>/dev/null ) || { why "$D"; case $E in ''|ENOENT) denied "$D";; esac; stop "$E"; }
  fi
  mkdir -m "$rootmode" "$root" 2>/dev/null || { denied "$D"; stop "$E"; }
}
dir_of() { p=./$n; D=${p%/*}/; }
folder() {
  dir_of
  if [ -d "$p" ] && [ ! -L "$p" ]; then return 0; fi
  there "$p" && stop ENOTDIR
  mkdir -m "$a" "$p" 2>/dev/null || { denied "$D"; stop "$E"; }
}
# Nothing is moved into a directory that a link leads to: the link itself is what is replaced.
replace() {
  if [ -d "$p" ]; then
    [ -L "$p" ] || stop EISDIR
    rm -f "$p"
  fi
  mv -f "$1" "$p" 2>/dev/null
  there "$1" || return 0
  denied "$D"; stop "$E"
}
link() {
  dir_of
  need ln readlink
  ln -s -- "$1" "$S/link" 2>/dev/null || { denied "$S/"; stop "$E"; }
  replace "$S/link"
  H=$(readlink "$p"; echo x)
  [ "$H" = "$1${nl}x" ] || stop EIO 'the link leads elsewhere'
}
slice() {
  w=$((a/1048576)) r=$((a%1048576))
  if [ "$w" -gt 0 ]; then dd bs=1048576 count="$w" <&4 2>/dev/null || return; fi
  [ "$r" -eq 0 ] || dd bs="$r" count=1 <&4 2>/dev/null
}
got() {
  j=${1##*/}
  eval "z=\$z$j sha=\$s$j crc=\$c$j n=\$n$j"
  case $3 in none|cksum) ;; *) [ "$2" = "$sha" ] && return;; esac
  ident "$1"; size_of "$V"
  [ "$Z" = "$z" ] || stop verify "$Z -"
  case $3 in
    none) tool=none;;
    cksum) if [ "$crc" = - ]; then tool=none; else [ "$2" = "$crc" ] || stop verify "$Z -"; fi;;
    *) stop verify "$Z $2";;
  esac
}
# Everything that is staged is checked, gets its mode, and then its name.
settle() {
  [ "$k" -gt 0 ] || return 0
  set --
  j=0 modes=
  while [ "$j" -lt "$k" ]; do
    j=$((j+1))
    set -- "$@" "$S/$j"
    eval "m=\$m$j"
    case " $modes " in *" $m "*) ;; *) modes="$modes $m"; eval "l$m=";; esac
    eval "l$m=\"\$l$m $S/$j\""
  done
  many "$@"
  for m in $modes; do eval "chmod $m \$l$m" 2>/dev/null || stop EPERM; done
  flush "$@"
  for f; do
    eval "n=\$n${f##*/}"
    dir_of
    replace "$f"
    [ -f "$p" ] || stop EIO
    [ "$D" = "$last" ] || { [ -z "$last" ] || flush "$last"; last=$D; }
  done
  [ -z "$last" ] || flush "$last"
  k=0
}
work() {
  while read -r op a b c d <&4; do
    case $op in
      E) settle; return 0;;
      D) name && folder || break;;
      L) name && q=$n && name || break; t=$n n=$q; link "$t";;
      M) settle; name || break; dir_of; [ ! -L "$p" ] || stop ELOOP; chmod "$a" "$p" 2>/dev/null || stop EPERM;;
      F)
        name || break
        k=$((k+1))
        eval "z$k=\$a m$k=\$b s$k=\$c c$k=\$d n$k=\$n"
        dir_of
        if [ "$single" ]; then fill "$S/$k" cat; settle; return 0; fi
        # The folder is ours alone, and the bundle fitted: no need for the care, and the process, that fill takes.
        slice >"$S/$k" || { broken ./ ''; stop "$E"; }
        [ "$k" -lt 100 ] || settle;;
      *) break;;
    esac
  done
  stop cut
}
need cat chmod mkdir mv rm
[ "$single" ] || need dd
[ -d "$root" ] || make_root
cd "$root" 2>/dev/null || stop EACCES
D=./
sweep ./
S=./${mark}0.tmp
mkdir "$S" 2>/dev/null || { S=; denied ./; stop "$E"; }
choose "$6"
# A lone content is read by cat, as the rest of stdin, behind what read took of it.
if [ "$single" ]; then work 4<&0; else fill "$S/in" cat; work 4<"$S/in"; fi
rm -rf "$S"; S=
rec ok "$tool"
"""

_BASE = PROLOGUE + RECORDS + PATHS + DIGESTS + _NAMES

LOOK_SCRIPT = dense(_BASE + STATE + _SEE + _LOOK)
"""Arguments: NONCE FOLDER. stdin: names. Tells of each that exists; a folder that is missing has none."""
WALK_SCRIPT = dense(_BASE + STATE + _SEE + _WALK)
"""Arguments: NONCE FOLDER. Tells of everything in it."""
SUMS_SCRIPT = dense(_BASE + STATUS + _MANY + _SUMS)
"""Arguments: NONCE FOLDER BYTES, which is how much there is to hash. stdin: names of regular files."""
GET_SCRIPT = dense(_BASE + EMIT + _GET)
"""Arguments: NONCE FOLDER. stdin: a line with the size and one with the name, for each file to send."""
PUT_SCRIPT = dense(_BASE + STATUS + BLAME + MARK + FILL + _MANY + _PUT)
"""Arguments: NONCE FOLDER MODE PARENTS SYNC SINGLE BYTES.

MODE is for the folder when it has to be made. SINGLE says that stdin ends with the content of its only file, which is
not copied twice then. stdin is a sequence of

* ``D MODE`` and a name: make a directory;
* ``L``, a name and a target: make a symbolic link;
* ``F SIZE MODE SHA256 CKSUM``, a name and the content;
* ``M MODE`` and a name: change a mode;
* ``E``: nothing was cut off.
"""
