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

step "format";  "$bin/ruff" format --check --quiet --output-format concise .
step "lint";    "$bin/ruff" check --quiet --output-format concise .
step "types";   "$bin/mypy" --no-error-summary
step "tests";   "$bin/pytest" --no-header -q --durations 15
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
