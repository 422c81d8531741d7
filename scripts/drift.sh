#!/bin/sh
# Tries the newest releases that pyproject.toml allows, and tells what changed against constraints.txt.
#
#   sh scripts/drift.sh          types, unit tests, the command line, and the laws on every backend: what uses other packages
#   sh scripts/drift.sh all      every test
set -eu
cd "$(dirname "$0")/.."
venv=.venv-drift
mkdir -p .work
VENV=$venv sh scripts/venv.sh dev
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --upgrade --upgrade-strategy eager --editable '.[dev]'
# What this makes is no installation in the versions of constraints.txt.
rm -f "$venv/.installed-dev"
"$venv/bin/python" -m pip freeze --exclude-editable >.work/newest.txt
same=yes
# Only what the newest set has is compared: the pins also hold what builds this package, and order and case differ.
compare() { # PINS NEWEST LABEL
  awk -F == -v label="$3" '/^#/ { next } NR == FNR { pin[tolower($1)] = $2; next } pin[tolower($1)] != $2 {
    was = tolower($1) in pin ? pin[tolower($1)] : "nothing"; print label $1 ": pinned " was ", newest " $2; found = 1
  } END { exit found }' "$1" "$2" || same=no
}
compare constraints.txt .work/newest.txt ""
# The suites of agent runtimes too: their newest releases against ours.
export PYTHON="$PWD/$venv/bin/python"
sh scripts/runtimes.sh --newest
sh scripts/runtimes.sh hermes_agent
for runtime in inspect_ai pydantic_ai deepagents; do
  "$venv/bin/python" -m pip --python ".work/runtimes-newest/$runtime/bin/python" freeze --exclude-editable >.work/newest-$runtime.txt
  compare "tests/runtimes/$runtime.txt" ".work/newest-$runtime.txt" "$runtime: "
done
rm -rf .work/runtimes-newest/hermes_agent
ln -sfn ../runtimes/hermes_agent .work/runtimes-newest/hermes_agent
export HERMES_ENV_TEST_RUNTIMES="$PWD/.work/runtimes-newest"
if [ "$same" = yes ]; then
  echo "drift: none; constraints.txt holds the newest releases, and nothing is tested again"
  exit 0
fi
tests="tests/unit tests/integration/cli tests/integration/documents/test_site.py tests/integration/test_conformance_local.py tests/integration/runtimes"
for backend in daytona docker modal ssh vercel; do
  tests="$tests tests/integration/$backend/test_conformance.py tests/integration/$backend/test_commands.py"
done
[ "${1-}" != all ] || tests=
# shellcheck disable=SC2086 # a list of words
if "$venv/bin/mypy" --no-error-summary && timeout -k 30 2400 "$venv/bin/pytest" --no-header -q --durations 5 $tests; then
  echo "drift: the newest releases work; to take them: put .work/newest.txt into constraints.txt, .work/newest-NAME.txt into tests/runtimes"
else
  echo "drift: the newest releases do NOT work; see above"
  exit 1
fi
