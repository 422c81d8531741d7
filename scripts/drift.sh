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
if "$venv/bin/mypy" --no-error-summary && "$venv/bin/pytest" --no-header -q; then held=yes; else held=no; fi
rm -f "$venv/.installed-dev"
case $same$held in
  yesyes) echo "drift: none; constraints.txt holds the newest releases" ;;
  noyes) echo "drift: the newest releases work; to take them: put .work/newest.txt into constraints.txt" ;;
  *) echo "drift: the newest releases do NOT work; see above"; exit 1 ;;
esac
