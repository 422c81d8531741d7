#!/bin/sh
# Everything that must hold before a change lands; needs .venv with the extra `dev`.
set -eu
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
work=$PWD/.work
started=$(date +%s)
# A shell starts what runs in the background with Ctrl-C ignored, which some tests are about.
# Two busy cores make a server late now and then: a test that fails runs once more, and the summary names it as RERUN.
pytest="env --default-signal=INT,QUIT timeout -k 30 2400 $bin/pytest --no-header -q -raR --reruns 1"
# Tests run in streams at once, since much of a test is waiting; what shares one server or engine is in one stream.
machines="tests/integration/docker tests/integration/runtimes tests/integration/ssh"
clouds="tests/emulators tests/integration/daytona tests/integration/modal tests/integration/staged tests/integration/vercel"
mutants=tests/mutants

step() {
  printf '== %s\n' "$*"
}

# The wheel as somebody else gets it: nothing of this folder, nothing of the extra `dev`.
clean_installation() {
  rm -rf "$work/dist" "$work/clean"
  "$bin/python" -m build --wheel --no-isolation --outdir "$work/dist" . >/dev/null
  "$bin/python" -m venv "$work/clean"
  "$work/clean/bin/python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
    "$(echo "$work"/dist/hermes_env-*.whl)[conformance]"
  empty=$(mktemp -d)
  (cd "$empty" && "$work/clean/bin/hermes-env" conformance local --profile quick)
  rmdir "$empty"
}

beside=
beside() { # NAME COMMAND...: run it beside everything else; what it says is told at the end
  name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  beside="$beside $name=$!"
  pids="$pids $!"
}

mkdir -p "$work"
# shellcheck disable=SC2086 # a list of words
trap 'kill $pids 2>/dev/null' 0
# Venvs that outside suites run in: tests that need one before it is made wait for it, and tell what went wrong.
sh scripts/runtimes.sh >"$work/runtimes.log" 2>&1 &
pids=$!

step "format";  "$bin/ruff" format --check --quiet --output-format concise .
step "lint";    "$bin/ruff" check --quiet --output-format concise .
step "at once: types, the wheel in a clean installation, tests in four streams (here the fourth; the others at the end)"
beside types "$bin/mypy" --no-error-summary
beside wheel clean_installation
for stream in machines clouds mutants; do
  eval "folders=\$$stream"
  # shellcheck disable=SC2086,SC2154 # lists of words; assigned by the line above
  beside "$stream" $pytest --durations 10 $folders
done
failed=
# shellcheck disable=SC2046,SC2086 # lists of words
$pytest --durations 15 $(printf -- '--ignore=%s ' $machines $clouds $mutants) || failed=tests

for one in $beside; do
  name=${one%=*}
  wait "${one#*=}" || failed="$failed $name"
  step "$name"
  cat "$work/$name.log"
done
trap - 0
if [ -n "$failed" ]; then
  printf 'failed:%s (after %s s)\n' " $failed" $(($(date +%s) - started))
  exit 1
fi
printf 'ok: all checks passed in %s s\n' $(($(date +%s) - started))
