#!/bin/sh
# Makes a venv in .work/runtimes for each agent runtime whose own suite or loader judges the adapters: this package and
# the versions of tests/runtimes/NAME.txt. Does nothing where they are there.
#
#   sh scripts/runtimes.sh [NAME...]           all of them without a name; at once, since they mostly wait for downloads
#   sh scripts/runtimes.sh --newest [NAME...]  in .work/runtimes-newest: the newest versions that pyproject.toml allows
set -eu
cd "$(dirname "$0")/.."
folder=$PWD/.work/runtimes
newest=
if [ "${1-}" = --newest ]; then
  newest=yes
  folder=$folder-newest
  shift
fi
if [ $# = 0 ]; then
  set -- inspect_ai pydantic_ai deepagents
  # Nothing of hermes-agent's own dependencies is needed, so there is no newest set of them to try.
  [ -n "$newest" ] || set -- "$@" hermes_agent
fi
mkdir -p "$folder"

wanted() { # what each venv holds when no version is given
  case $1 in
    inspect_ai) echo '.[inspect,docker] pytest' ;;
    pydantic_ai) echo '.[pydantic-ai,docker] pytest' ;;
    deepagents) echo '.[deepagents,docker] langchain-tests' ;;
    *) return 1 ;;
  esac
}

make_venv() { # NAME
  venv=$folder/$1
  pins=tests/runtimes/$1.txt
  [ -z "$newest" ] || pins=pyproject.toml
  python=${PYTHON:-.venv/bin/python}
  pip="$python -m pip --disable-pip-version-check --python $venv/bin/python"
  # What a venv was made of is kept in it: times tell nothing, since a merge touches files.
  if ! cmp -s "$pins" "$venv/.made-of" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    "$python" -m venv --clear --without-pip "$venv"
    if [ -n "$newest" ]; then
      # shellcheck disable=SC2046,SC2086 # lists of words
      $pip install -qq --editable $(wanted "$1")
    else
      # The list is complete, so nothing has to be resolved: hermes-agent alone would bring what its tools never import.
      # Of these packages little is ever imported: what is, Python compiles then.
      $pip install -qq --no-deps --no-compile --requirement "$pins"
    fi
    cp "$pins" "$venv/.made-of"
  fi
  if [ -z "$newest" ] && ! cmp -s pyproject.toml "$venv/.pyproject.toml"; then
    $pip install -qq --no-deps --no-compile --no-build-isolation --editable .
    cp pyproject.toml "$venv/.pyproject.toml"
  fi
}

jobs=
for name; do
  # Two callers at once make one venv.
  (
    flock 9
    make_venv "$name" || { echo "error: no venv for $name" >&2; exit 1; }
  ) 9>"$folder/$name.lock" &
  jobs="$jobs $!"
done
failed=0
for job in $jobs; do
  wait "$job" || failed=1
done
exit $failed
