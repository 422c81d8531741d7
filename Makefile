# Two commands for a newcomer: `make demo` and `make test`. Both make .venv by themselves.

.PHONY: help demo test docs drift clean

help:
	@echo "make demo   install into .venv, then watch bytes move and prove that they arrived"
	@echo "make test   install the development tools too, then check everything that CI checks"
	@echo "make docs   bring generated parts up to date, then build the site into .work/site"
	@echo "make drift  try the newest releases of every dependency and tell what changed"
	@echo "make clean  remove what these made"

demo:
	@sh scripts/venv.sh all
	@.venv/bin/python -m tests.demo

test:
	@sh scripts/venv.sh dev
	@sh scripts/check.sh

docs:
	@sh scripts/venv.sh dev
	@.venv/bin/python scripts/reference.py
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet
	@echo "written: .work/site/index.html"

drift:
	@sh scripts/drift.sh

clean:
	@rm -rf .venv .venv-drift .work .mypy_cache .ruff_cache .hypothesis
