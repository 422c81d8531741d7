"""Ends the running commands of this process when it dies, also by SIGKILL: one small shell per environment."""

from __future__ import annotations

import os
import subprocess
import threading

_SCRIPT = r"""
trap '' INT TERM HUP; cd /; unset IFS
while IFS= read -r l; do
  set -- $l
  case $1 in
    a) eval "_he_run_$2=$3";;
    d) unset "_he_run_$2";;
  esac
done
run=$(set | while IFS= read -r l; do case $l in (_he_run_*) echo "${l#_he_run_}";; esac; done)
set --
for r in $run; do
  kill -s KILL -- "-${r%%=*}" 2>/dev/null
  r=${r#*=}; r=${r#[\"\']}
  set -- "$@" -e "HERMES_ENV_COMMAND=${r%[\"\']}"
done
[ $# -gt 0 ] || exit 0
clean=0 rounds=0
while [ "$clean" -lt 2 ] && [ "$rounds" -lt 50 ]; do
  rounds=$((rounds + 1)) hit=
  for f in $(grep -ls "$@" /proc/[0-9]*/environ 2>/dev/null); do
    f=${f#/proc/}; hit="$hit ${f%/environ}"
  done
  for p in $hit; do kill -s KILL "$p" 2>/dev/null; done
  [ -n "$hit" ] && clean=0 || clean=$((clean + 1))
done
"""
"""Lines ``a PID ID`` and ``d PID ID`` come and go with commands; end-of-file means that the client is gone.

One variable for each command: cutting pieces out of one long string took a minute for 500 commands.
"""


class Watchdog:
    """A shell that waits for the end of this process and then kills what `add` named and `discard` did not."""

    def __init__(self) -> None:
        reader, self._pipe = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "hermes-env-watchdog"],
                stdin=reader,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH") or os.defpath},
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reader)
        self._lock = threading.Lock()
        self._closed = False

    def add(self, pid: int, command_id: str) -> None:
        """Right after a command was started."""
        self._send("a", pid, command_id)

    def discard(self, pid: int, command_id: str) -> None:
        """Right before a command's process id is given back to the system."""
        self._send("d", pid, command_id)

    def _send(self, verb: str, pid: int, command_id: str) -> None:
        line = f"{verb} {pid} {command_id}\n".encode()
        with self._lock:
            if self._closed:
                return
            try:
                os.write(self._pipe, line)
            except BrokenPipeError:
                # Someone killed the shell: commands run on without this net.
                self._closed = True
                os.close(self._pipe)

    def close(self) -> None:
        """End the shell. Commands that were not discarded are killed by it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._pipe)
        self._shell.wait()
