r"""The script that tells what paths name, links followed, with their bytes or digests. Pure text.

For every path a record ``at LINK PLACE REAL MISSING STATE TARGET IDENT``, then one of: a content as `_script_read`
sends it, a record ``sum DIGEST TOOL``, a record ``fail ERRNO``, or ``none`` for what is no regular file.
"""

from __future__ import annotations

from ._script_common import DIGESTS, PATHS, PROLOGUE, RECORDS, STATUS, dense
from ._script_read import EMIT, REFUSE, SEND, STATE

_SURVEY = r"""
# Sets real and missing for the file $P in the directory $D, which may be missing too; E when that cannot be told.
locate() {
  last=${P##*/} missing= q=${D%/} rest=
  while [ "$q" ] && [ ! -d "$q" ]; do
    there "$q" && { absent "$q"; [ "$E" ] || E=ENOTDIR; return 1; }
    case ${q##*/} in ..|.) E=ENOENT; return 1;; esac
    [ -z "${q##*/}" ] || { rest=${q##*/}/$rest; missing=x$missing; }
    case $q in */*) q=${q%/*};; *) q=.;; esac
  done
  phys "${q:-/}" || { E=EACCES; return 1; }
  real=$R/$rest$last
}
one() {
  link= place= real= st= V= E= missing= follow=-L copy= from=0 text=
  [ ! -L "$path" ] || { link=1; text=$(readlink "$path" 2>/dev/null; echo x); text=${text%x}; text=${text%"$nl"}; }
  case $path in */|*/.|*/..) ;; *) phys "${path%/*}/" && place=$R/${path##*/};; esac
  if [ -d "$path" ]; then
    phys "$path" && real=${R:-/}
    P=$path
  else
    resolve "$path" && locate || missing=
  fi
  code=$E
  [ ! -e "$path" ] || { stated "$path"; ident "$P"; }
  rec at "$link" "$place" "$real" "$missing" "$st" "$text" "$V"
  [ -z "$code" ] || [ -n "$st" ] || { fail "$code"; return; }
  content
}
content() {
  if [ -z "$st" ]; then why "$path"; fail "${E:-ENOENT}"; return; fi
  [ -f "$path" ] || { rec none; return; }
  [ -r "$path" ] || { fail EACCES; return; }
  measure || return
  if [ "$most" = - ]; then hash "$file" "$len"; rec sum "$SUM" "$BY"
  elif [ "$len" -gt "$most" ]; then fail EFBIG "has $len bytes"
  else limit=- ; send "$file"
  fi
  [ -z "$copy" ] || rm -f "$copy"
}
most=$1; shift
for path; do i=$((i+1)); one; done
rec ok "${HOME-}" "$(id -u 2>/dev/null)"
"""

SURVEY_SCRIPT = dense(PROLOGUE + RECORDS + PATHS + DIGESTS + STATUS + REFUSE + EMIT + SEND + STATE + _SURVEY)
"""Arguments: NONCE, the most bytes of one content (``-`` for digests only), then paths."""
