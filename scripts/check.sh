#!/bin/sh
# Everything that must hold before a change lands; needs .venv with the extra `dev`.
set -eu
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
work=$PWD/.work
started=$(date +%s)

step() {
  printf '== %s\n' "$*"
}

mkdir -p "$work"
# Venvs that outside suites run in, made while other things are checked; a failure is told by the tests that need them.
sh scripts/runtimes.sh >"$work/runtimes.log" 2>&1 &
making=$!
trap 'kill "$making" 2>/dev/null' 0

step "format";  "$bin/ruff" format --check --quiet --output-format concise .
step "lint";    "$bin/ruff" check --quiet --output-format concise .
step "types";   "$bin/mypy" --no-error-summary
step "tests, in two runs at once: what mostly waits for servers, and the rest"
wait "$making" || cat "$work/runtimes.log"
servers="tests/emulators tests/integration/daytona tests/integration/docker tests/integration/modal"
servers="$servers tests/integration/runtimes tests/integration/ssh tests/integration/staged tests/integration/vercel"
# Two busy cores make a server late now and then: a test that fails runs once more, and the summary names it as RERUN.
set -- "$bin/pytest" --no-header -q -raR --reruns 1
# A shell starts what runs in the background with Ctrl-C ignored, which some tests are about.
# shellcheck disable=SC2086 # a list of words
env --default-signal=INT,QUIT timeout -k 30 2400 "$@" --durations 10 $servers >"$work/servers.log" 2>&1 &
waiting=$!
trap 'kill "$waiting" 2>/dev/null' 0
rest=0
# shellcheck disable=SC2046 # a list of words
timeout -k 30 2400 "$@" --durations 15 $(printf -- '--ignore=%s ' $servers) || rest=$?
served=0
wait "$waiting" || served=$?
trap - 0
cat "$work/servers.log"
[ "$rest$served" = 00 ]
step "wheel";   rm -rf "$work/dist" "$work/clean"; "$bin/python" -m build --wheel --no-isolation --outdir "$work/dist" . >/dev/null
step "clean installation of the wheel"
"$bin/python" -m venv "$work/clean"
"$work/clean/bin/python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
  "$(echo "$work"/dist/hermes_env-*.whl)[conformance]"
step "conformance of that installation, from an empty folder"
empty=$(mktemp -d)
(cd "$empty" && "$work/clean/bin/hermes-env" conformance local --profile quick)
rmdir "$empty"
printf 'ok: all checks passed in %s s\n' $(($(date +%s) - started))
