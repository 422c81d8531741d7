"""The part of the write script that makes prepared changes visible, and takes them back. Pure text."""

from __future__ import annotations

APPLY = r"""
REPLACED='another writer replaced it right after it was written'
WRITTEN='another writer wrote into it at the same time'
# Sets E to why the name $1 in directory $2 can be neither removed nor replaced.
kept() {
  denied "$2"; [ "$E" = EIO ] || return
  if mounted "$1"; then E=EBUSY; else E=EPERM; fi
}
set_state() { state=$1; eval "state$i=\$1 K$i=\$K y$i=\$inplace"; }
backup() {
  K=$D$mark$i.bak; eval "K$i=\$K"
  ln "$P" "$K" 2>/dev/null || cp -pP "$P" "$K" 2>/dev/null && return
  denied "$D"; stop "$E" 'no backup can be made'
}
copy_aside() {
  K=$D$mark$i.bak; eval "K$i=\$K"
  fill "$K" cat <"$P"
  cmp -s "$P" "$K" || stop changed 'changed while it was backed up'
}
# Writes the verified bytes over the old ones, one writer after the other where there is a tool for locks.
in_place() {
  inplace=1 began=
  [ "$K" ] && rm -f "$K"
  { began=1; flock -x 9 2>/dev/null; pour; } 9>>"$P"
  # A mounted file that cannot be opened for writing is mounted read-only.
  [ "$began" ] || { kept "$P" "$D"; [ "$E" != EBUSY ] || E=EROFS; stop "$E"; }
} 2>/dev/null
# The old bytes are kept aside until the new ones are checked; what another writer wrote meanwhile is left alone.
pour() {
  same "$P" || stop changed 'changed meanwhile'
  copy_aside
  set_state dirty
  if msg=$( { cat "$T" 2>&1 >&3 3>&-; } 2>/dev/null 3>"$P" ); then
    flush "$P"
    verify "$P" "$sha" || { set_state foreign; stop changed "$WRITTEN"; }
    set_state written
    [ -z "$mode" ] || chmod "$mode" "$P" 2>/dev/null
    rm -f "$T"
    return
  fi
  begins || { set_state foreign; stop changed "$WRITTEN"; }
  broken "$D" "$msg"; [ -w "$P" ] || E=EACCES
  [ "$E" != EIO ] || E=EPERM
  stop "$E" "$msg"
}
# Whether the file holds the first part of our bytes, and nothing else.
begins() { ident "$P"; size_of "$V"; head -c "$Z" <"$T" | cmp -s - "$P"; }
do_W() {
  straight "$D"
  same "$P" || stop changed 'changed meanwhile'
  [ -d "$P" ] && stop EISDIR
  if [ "$inplace" ]; then in_place; return; fi
  [ "$count" -eq 1 ] || [ -z "$X" ] || backup
  if [ "$cond" = absent ]; then
    there "$P" && stop EEXIST
    ln "$T" "$P" 2>/dev/null && rm -f "$T"
  fi
  if [ -e "$T" ]; then
    mv -f "$T" "$P" 2>/dev/null; rc=$?
    if [ -e "$T" ]; then
      if [ "$rc" -ne 0 ]; then
        [ "$X" ] && blocked && { permit; in_place; return; }
        kept "$P" "$D"; stop "$E"
      fi
      verify "$P" "$sha" || stop verify "$Z $SUM $BY"
    fi
  fi
  set_state done
  was=$V
  ident "$P"
  if [ "$V" != "$was" ]; then
    # Other bytes in the file that was put there are damage; in another file they are another writer's.
    b=${V#*:}; b=${b%%:*}; was=${was#*:}; was=${was%%:*}
    verify "$P" "$sha" || { [ "$b" = "$was" ] && stop verify "$Z $SUM $BY"; stop changed "$REPLACED"; }
  fi
  flush "$D"
}
# After a rename that failed: whether the file can still be written where it is.
blocked() {
  [ -f "$P" ] && [ -w "$P" ] || return 1
  denied "$D"; [ "$E" = EIO ] || return 1
  mounted "$P" || [ -k "$D" ]
}
do_R() {
  straight "$D"
  same "$P" || stop changed 'changed meanwhile'
  if [ "$count" -eq 1 ]; then
    if [ "$X" = 1 ]; then rm -f "$P"; else case $flags in *f*) rm -rf "$P";; *) rmdir "$P";; esac; fi 2>/dev/null
  else
    K=$D$mark$i.bak; eval "K$i=\$K"
    mv -f "$P" "$K" 2>/dev/null
  fi
  if there "$P"; then
    kept "$P" "$D"
    [ "$X" != 2 ] || [ "${flags#*f}" != "$flags" ] || empty "$P" || E=ENOTEMPTY
    stop "$E"
  fi
  set_state done
  flush "$D"
}
# Moves to another file system: the copy is checked before the original goes.
carry() {
  T=$D$mark$i.tmp; eval "T$i=\$T"
  cp -pP "$S" "$T" 2>/dev/null || { broken "$D" ''; stop "$E" dst; }
  if [ ! -L "$S" ]; then
    ident "$S"; size_of "$V"; hash "$S" "$Z"; a="$Z $SUM"
    ident "$T"; size_of "$V"; hash "$T" "$Z"
    [ "$a" = "$Z $SUM" ] || stop changed 'the copy on the other file system differs'
    flush "$T"
  fi
  mv -f "$T" "$P" 2>/dev/null && rm -f "$S"
}
# Whether $S and $P are two names of one file: a rename leaves both then.
twins() {
  [ -f "$S" ] && [ ! -L "$S" ] && [ ! -L "$P" ] || return 1
  set -f; set -- $(ls -lnid "$S" 2>/dev/null); set +f
  case ${3:-1} in 1) return 1;; esac
  ident "$S"; set -- "$V"; ident "$P"
  [ "$V" = "$1" ] && cmp -s "$S" "$P"
}
do_M() {
  straight "${S%/*}/" "$D"
  same "$S" || stop changed 'changed meanwhile'
  [ "$X" != itself ] || return 0
  ident "${S%/*}/"; a=${V%%:*}
  ident "$D"; b=${V%%:*}
  [ "$a" = "$b" ] || [ -L "$S" ] || [ ! -d "$S" ] || stop EXDEV
  if [ "$X" = 2 ]; then rmdir "$P" 2>/dev/null || { kept "$P" "$D"; empty "$P" || E=ENOTEMPTY; stop "$E" dst; }
  elif [ "$X" ] && [ "$count" -ne 1 ]; then backup
  fi
  set_state moving
  if [ "$X" = 1 ] && twins; then rm -f "$S" 2>/dev/null
  elif [ "$a" = "$b" ]; then mv -f "$S" "$P" 2>/dev/null
  else carry
  fi
  if there "$S" || ! there "$P"; then
    denied "$D"; note=dst
    [ "$E" != EIO ] || { kept "$S" "${S%/*}/"; note=; }
    stop "$E" "$note"
  fi
  set_state done
  flush "$D"; flush "${S%/*}/"
}
do_D() { set_state done; }
do_L() {
  straight "$D"
  there "$P" && stop EEXIST
  ln -s -- "$S" "$P" 2>/dev/null
  [ -L "$P" ] || { denied "$D"; stop "$E"; }
  set_state done
  flush "$D"
}
do_E() { same "$P" || stop changed 'changed meanwhile'; set_state done; }
# Puts back what was done, last change first; lost names what could not be.
undo() {
  [ "$phase" != over ] || return
  # Temporary files first: they may stand in directories that were made.
  [ -z "$T" ] || rm -f "$T"
  [ -z "$bundle" ] || rm -f "$bundle"
  # Changes behind the one that failed are prepared: they have temporary files and directories too.
  [ "$phase" = prepare ] || i=$count
  last=$i
  while [ "$i" -gt 0 ]; do
    eval "state=\${state$i-}"
    if [ "$state" ]; then load; [ -z "$T" ] || rm -f "$T"; undo_"$op"; fi
    [ "$i" -ne "$last" ] || [ "$state" ] || dirs
    i=$((i-1))
  done
  i=$last
}
dirs() {
  while [ "$Q" ]; do
    rmdir "${Q%%"$nl"*}" 2>/dev/null
    case $Q in *"$nl"*) Q=${Q#*"$nl"};; *) Q=;; esac
  done
}
fell() { lost="$lost $i"; }
undo_W() {
  straight "$D"
  case $state in
    dirty) cat "$K" >"$P" 2>/dev/null; if cmp -s "$K" "$P"; then rm -f "$K"; else fell; fi;;
    written) if verify "$P" "$sha"; then state=dirty; undo_W; return; fi; rm -f "$K";;
    done)
      if [ "$count" -eq 1 ]; then return; fi
      if [ -z "$X" ]; then rm -f "$P"; there "$P" && fell
      else mv -f "$K" "$P" 2>/dev/null || fell
      fi;;
    *) [ -z "$K" ] || rm -f "$K";;
  esac
  dirs
}
undo_R() { [ "$state" != done ] || { [ "$K" ] && mv "$K" "$P" 2>/dev/null; } || fell; }
undo_M() {
  straight "${S%/*}/" "$D"
  [ "$state" = ready ] && return
  there "$S" || mv "$P" "$S" 2>/dev/null || fell
  if [ "$X" = 2 ]; then mkdir "$P" 2>/dev/null || fell
  elif [ "$K" ]; then mv -f "$K" "$P" 2>/dev/null || fell
  fi
}
undo_D() { dirs; }
undo_L() { [ "$state" != done ] || rm -f "$P"; }
undo_E() { :; }
"""
