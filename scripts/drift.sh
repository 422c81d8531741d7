#!/bin/sh
# Tries the newest releases that pyproject.toml allows, and tells what changed against constraints.txt.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-drift
mkdir -p .work
VENV=$venv sh scripts/venv.sh dev
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --upgrade --upgrade-strategy eager --editable '.[dev]'
"$venv/bin/python" -m pip freeze --exclude-editable >.work/newest.txt
grep -v '^#' constraints.txt | diff - .work/newest.txt >.work/drift.txt && same=yes || same=no
sed -n 's/^< /pinned: /p; s/^> /newest: /p' .work/drift.txt
# The suites of agent runtimes too: their newest releases against ours.
sh scripts/runtimes.sh --newest
for runtime in inspect_ai pydantic_ai deepagents; do
  "$venv/bin/python" -m pip --python ".work/runtimes-newest/$runtime/bin/python" freeze --exclude-editable >.work/newest-$runtime.txt
  grep -v '^#' tests/runtimes/$runtime.txt | diff - .work/newest-$runtime.txt >.work/drift.txt || same=no
  sed -n "s/^< /pinned for $runtime: /p; s/^> /newest for $runtime: /p" .work/drift.txt
done
rm -rf .work/runtimes-newest/hermes_agent
ln -sfn ../runtimes/hermes_agent .work/runtimes-newest/hermes_agent
export HERMES_ENV_TEST_RUNTIMES="$PWD/.work/runtimes-newest"
if "$venv/bin/mypy" --no-error-summary && "$venv/bin/pytest" --no-header -q; then held=yes; else held=no; fi
rm -f "$venv/.installed-dev"
case $same$held in
  yesyes) echo "drift: none; constraints.txt holds the newest releases" ;;
  noyes) echo "drift: the newest releases work; to take them: put .work/newest.txt into constraints.txt, .work/newest-NAME.txt into tests/runtimes" ;;
  *) echo "drift: the newest releases do NOT work; see above"; exit 1 ;;
esac
