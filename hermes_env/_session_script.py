r"""POSIX sh text that carries a session from one command to the next: restore, run, save. Pure.

Files of one session, in a directory of mode 0700 that only it knows::

    ``N``      variables after command N, as the shell's own ``export -p``, and the working directory among them
    ``N.f``    functions and aliases after it, as the shell prints them
    ``N.ok``   both are complete
    ``N.at``   the state that command N began with: what counts when it saved none
    ``names``  exported variables that the environment itself gives to every command
    ``given``  there are functions among what it gives
    ``N.cmd``  text of command N, when it is too long for an argument

State goes from the shell into these files and from there into the next shell: never through the command's streams,
never through the client. Saving runs nothing but builtins, so that it works whatever the command did to PATH. Names
have a backslash before them where aliases of the user could take part; functions of the user are printed before those
that carry the names of our builtins are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ._shell import quote

DIRECTORY_PREFIX = ".hermes-session."
CWD_VARIABLE = "HERMES_ENV_SESSION_CWD"
"""Stands in a saved state for the working directory: the shell's own quoting carries any bytes."""
OLD_VARIABLE = "HERMES_ENV_SESSION_OLDPWD"
"""The same for the directory before it, where ``cd -`` goes."""
_DAYS = 7
"""Days without a command after which the next session removes a directory: its client was killed."""

_PLACES = '"${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "${HOME:-.}" .'

_OPEN = rf"""
umask 077; h=; s=$3
if [ -z "$s" ]; then s=/bin/sh; command -v bash >/dev/null 2>&1 && s=bash; fi
command -v "$s" >/dev/null 2>&1 || {{ printf '%s noshell %s\n' "$1" "$s" >&2; exit 125; }}
for t in {_PLACES}; do
  case $t in /*) ;; *) t=$(pwd -P)/$t;; esac
  case $t in *[!A-Za-z0-9_./,:@%+-]*) continue;; esac
  if mkdir -m 700 "$t/$2" 2>/dev/null; then
    if ( echo 0 >"$t/$2/0.f" ) 2>/dev/null && [ -s "$t/$2/0.f" ]; then h=$t/$2; break; fi
    rm -rf "$t/$2"
  fi
done
[ -n "$h" ] || {{ printf '%s full\n' "$1" >&2; exit 125; }}
find "$t"/{DIRECTORY_PREFIX}* -prune -type d -mtime +{_DAYS} -exec rm -rf {{}} + 2>/dev/null
printf '%s\n%s\n' "$s" "$h"
case $s in bash|*/bash) exec "$s" --posix -c "$4" bash "$1" "$h" '' 0 '' text "$5";; esac
exec "$s" -c "$4" sh "$1" "$h" '' 0 '' text "$5"
"""
"""Makes the directory ``$2`` in the first place that takes one, chooses the shell, and saves what is there as 0."""

_PROBE = r"""
[ -z "${YASH_VERSION-}" ] || set +o posixly-correct
if (typeset -fp) >/dev/null 2>&1; then echo functions; fi
if (alias) >/dev/null 2>&1; then echo aliases; fi
"""
"""Says what the shell can print, and so what the session keeps."""

_RESTORE = r"""
[ -z "${ZSH_VERSION-}" ] || emulate sh
if [ -n "${BASH_VERSION-}" ]; then
  case $0 in bash) set +o posix;; esac
  shopt -s expand_aliases
  case $3 in '') case $(declare -F) in ?*) : >"$2/given";; esac;; esac
  [ ! -f "$2/given" ] || [ -z "$3" ] || unset -f $(declare -F | while read -r x; do echo "${x##* }"; done)
fi 2>/dev/null
_hermes_n=$1 _hermes_d=$2 _hermes_w=$4 _hermes_s= _hermes_g=
_hermes_no() { printf '%s %s %s\n' "$_hermes_n" "$1" "$2" >&2; exit 125; }
[ -d "$2" ] || _hermes_no lost
case $3 in
  '')
    _hermes_i=$IFS
    IFS='
'
    set -f
    for _hermes_x in $(export -p); do
      case $_hermes_x in export\ *|declare\ -*|typeset\ -*) ;; *) continue;; esac
      _hermes_x=${_hermes_x%%=*}; _hermes_x=${_hermes_x##* }
      case $_hermes_x in
        ''|[0-9]*|*[!A-Za-z0-9_]*|_|_hermes_*|PWD|OLDPWD|IFS|PPID|UID|EUID|GID|EGID|LINENO|OPTIND|SHLVL) ;;
        BASHOPTS|BASHPID|BASH_VERSION|BASH_VERSINFO|SHELLOPTS|ZSH_VERSION|YASH_VERSION|KSH_VERSION|@MARK@) ;;
        *) _hermes_g="$_hermes_g $_hermes_x";;
      esac
    done
    set +f; IFS=$_hermes_i
    echo "$_hermes_g" >"$2/names" || _hermes_no full
    _hermes_g=;;
  *)
    if [ -f "$2/${3%!}.ok" ]; then _hermes_s=${3%!}
    elif [ "$3" = "${3%!}" ] && { [ -f "$2/$3" ] || [ -f "$2/$3.f" ]; }; then _hermes_no unsaved
    else { read -r _hermes_s <"$2/${3%!}.at"; } 2>/dev/null || _hermes_no lost
    fi
    [ -f "$2/$_hermes_s.ok" ] && echo "$_hermes_s" >"$2/$4.at" || _hermes_no lost;;
esac
@STASH@
if [ -n "$3" ]; then
  case $6 in file) _hermes_t=$(cat -- "$2/$4.cmd");; esac
  case $4 in *[05])
    for _hermes_x in "$2"/[0-9]*; do
      case ${_hermes_x##*/} in
        "$_hermes_s"|"$_hermes_s".*|"${3%!}".at|"$4".*) ;;
        *) _hermes_g="$_hermes_g $_hermes_x";;
      esac
    done
    [ -z "$_hermes_g" ] || rm -f -- $_hermes_g;;
  esac
  # bash complains about a locale that is gone with its variable.
  read -r _hermes_x <"$2/names" && unset $_hermes_x 2>/dev/null
  . "$2/$_hermes_s" 2>/dev/null
  _hermes_c=$@CWD@ _hermes_o=$@OLD@
  unset @CWD@ @OLD@
  case $5 in '') ;; /*) _hermes_o=$_hermes_c _hermes_c=$5;; *) _hermes_o=$_hermes_c _hermes_c=${_hermes_c%/}/$5;; esac
  case $_hermes_o in ?*) cd -- "$_hermes_o" 2>/dev/null;; esac
  cd -- "$_hermes_c" 2>/dev/null || {
    if [ ! -e "$_hermes_c" ]; then _hermes_no missing "$_hermes_c"; fi
    if [ ! -d "$_hermes_c" ]; then _hermes_no notdir "$_hermes_c"; fi
    _hermes_no denied "$_hermes_c"
  }
  case $_hermes_o in '') unset OLDPWD;; *) OLDPWD=$_hermes_o;; esac
fi
unset -f _hermes_no
@APPLY@
case $6 in
  argv) shift 6; unset _hermes_n _hermes_d _hermes_w _hermes_s; @MERGE@exec "$@";;
  peek) _hermes_w= _hermes_t=$7;;
  text) _hermes_t=$7;;
esac
unset _hermes_x _hermes_g _hermes_i _hermes_c _hermes_o @STASHED@
_hermes_z=@SAVE@
trap '{ _hermes_r=$?; \set +exvu; } 2>/dev/null; \eval "$_hermes_z"; \exit "$_hermes_r"' 0
@MERGE@set --
case $_hermes_s in ?*) \unalias -a; . "$_hermes_d/$_hermes_s.f";; esac
\eval "$_hermes_t"
{ _hermes_r=$?; \set +exvu; } 2>/dev/null
\eval "$_hermes_z"
\exit "$_hermes_r"
"""

_SAVE = r"""case $_hermes_w in '') ;; *) (
\umask 077; \set +aC; \set -f; \exec 2>/dev/null </dev/null >"$_hermes_d/$_hermes_w.f" || \exit
_hermes_p=$PATH
case ${YASH_VERSION-} in ?*) \set +o posixly-correct; PATH=/usr/bin:/bin;; esac
if [ -n "${BASH_VERSION-}" ]; then
  \trap - DEBUG ERR RETURN
  \declare -f || \exit
  \export -f
elif (\typeset -fp) >/dev/null 2>&1; then
  \typeset -fp || \exit
fi
\unset -f command export alias unset printf echo pwd set exit
[ -z "${BASH_VERSION-}" ] || \set -o posix
case ${BASH_VERSION-}${YASH_VERSION-}${ZSH_VERSION-} in
  '')
    IFS='
'
    for _hermes_x in $(\alias); do
      _hermes_x=${_hermes_x%%=*}
      case $_hermes_x in ''|-*|*[\'\"\$\`\\]*) continue;; esac
      \alias "$_hermes_x" >/dev/null || continue
      \printf 'alias '; \alias "$_hermes_x" || \exit
    done;;
  *) case ${ZSH_VERSION-} in '') \alias -p;; *) \alias -L;; esac || \exit;;
esac
\echo : || \exit
\unset @MARK@
@BACK@
if [ "$PWD" -ef . ]; then @CWD@=$PWD
else @CWD@=$(\pwd && \echo x) && @CWD@=${@CWD@%?x} || @CWD@=$PWD
fi
@OLD@=${OLDPWD-}
\export @CWD@ @OLD@
\set -- "$_hermes_d/$_hermes_w"
[ -z "${BASH_VERSION-}" ] || \export -n SHELLOPTS BASHOPTS
PATH=$_hermes_p
\unset _hermes_n _hermes_d _hermes_w _hermes_s _hermes_t _hermes_r _hermes_x _hermes_z _hermes_p @SHADOWS@
{
  case ${ZSH_VERSION-} in
    '') \export -p;;
    # What zsh prints for byte 28 it does not read again.
    *) emulate zsh; \eval 'for x in ${(f)"$(typeset +x)"}; do print -r -- "export $x=${(qq)${(P)x}}"; done';;
  esac && case ${YASH_VERSION-} in '') \echo :;; esac
} >"$1" && \: >"$1.ok"
);; esac
_hermes_w="""


def boot(names: Iterable[str] = (), *, merge_stderr: bool = False, mark: str) -> str:
    """The script of one command: restore, run, save.

    Its arguments: nonce; directory; number of the last command that ended by itself, with ``!`` when it is known to
    have saved nothing; number of this command; directory to start in; mode (``text``, ``file``, ``peek`` or
    ``argv``); and the text or the argv.

    Args:
        names: Variables of this command alone, which are in its process environment.
        merge_stderr: Let stderr go to stdout from where the command itself begins.
        mark: Variable that marks the processes of one command; never kept.
    """
    names = list(names)
    stash = "".join(f"_hermes_v_{name}=${name}; unset {name}\n" for name in names)
    apply = "".join(
        f"_hermes_h_{name}=${{{name}+x}} _hermes_o_{name}=${{{name}-}}; {name}=$_hermes_v_{name}; export {name}\n"
        for name in names
    )
    back = "".join(
        f"case $_hermes_h_{name} in x) {name}=$_hermes_o_{name};; *) \\unset {name};; esac\n" for name in names
    )
    save = _filled(
        _SAVE, BACK=back, SHADOWS=" ".join(f"_hermes_h_{name} _hermes_o_{name}" for name in names), MARK=mark
    )
    return _filled(
        _RESTORE,
        STASH=stash,
        APPLY=apply,
        STASHED=" ".join(f"_hermes_v_{name}" for name in names),
        MERGE="exec 2>&1; " if merge_stderr else "",
        SAVE=quote(save),
        MARK=mark,
    )


def _filled(text: str, **parts: str) -> str:
    for name, part in {**parts, "CWD": CWD_VARIABLE, "OLD": OLD_VARIABLE}.items():
        text = text.replace(f"@{name}@", part)
    return text


def open_argv(nonce: str, name: str, shell: str | None, mark: str) -> tuple[str, ...]:
    """What makes the directory and saves the first state; prints the shell, the directory, and what is kept."""
    return ("/bin/sh", "-c", _OPEN, "sh", nonce, name, shell or "", boot(mark=mark), _PROBE)


def command_argv(shell: str, script: str, args: Sequence[str]) -> tuple[str, ...]:
    """What runs one command in the session's shell; bash starts in posix mode so that it reads no ``BASH_ENV``."""
    if shell.rpartition("/")[2] == "bash":
        return (shell, "--posix", "-c", script, "bash", *args)
    return (shell, "-c", script, "sh", *args)


STORE = 'umask 077; cat >"$1"'
"""Takes a command's text from stdin."""
REMOVE = r"""
if [ -n "$1" ]; then rm -rf -- "$1"; [ ! -e "$1" ]; exit; fi
for t in @PLACES@; do rm -rf -- "$t/$2"; done
""".replace("@PLACES@", _PLACES)
"""Removes the directory, wherever it is when its place was not told."""
