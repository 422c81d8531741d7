#!/bin/sh
# Makes .venv with this package and one of its extras, in the versions of constraints.txt. Does nothing when it is there.
#
#   sh scripts/venv.sh EXTRA
set -eu
cd "$(dirname "$0")/.."
extra=$1
venv=${VENV:-.venv}

fresh() { # a finished installation, no older than what describes it
  [ -f "$1" ] && [ -z "$(find pyproject.toml constraints.txt -newer "$1")" ] && "$venv/bin/python" -c '' 2>/dev/null
}

usable() { # Debian splits ensurepip, which venv needs, into the package python3-venv
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
  for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if usable "$python"; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

install_venv_package() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  echo "install: python3-venv, by apt-get"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends python3-venv; } >&2
}

if fresh "$venv/.installed-$extra" || fresh "$venv/.installed-dev"; then
  exit 0
fi
if ! python=$(find_python); then
  install_venv_package >/dev/null 2>&1 && python=$(find_python) || {
    echo "error: no Python 3.11 or newer that can make a venv: apt-get install python3 python3-venv" >&2
    exit 1
  }
fi
echo "install: hermes-env[$extra] into $venv ($("$python" --version))"
"$venv/bin/python" -c '' 2>/dev/null || "$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable ".[$extra]"
touch "$venv/.installed-$extra"
