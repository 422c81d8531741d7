# Two commands for a newcomer: `make demo` and `make test`. Both make .venv by themselves.

.PHONY: help demo test drift clean

help:
	@echo "make demo   install into .venv, then watch bytes move and prove that they arrived"
	@echo "make test   install the development tools too, then check everything that CI checks"
	@echo "make drift  try the newest releases of every dependency and tell what changed"
	@echo "make clean  remove what these made"

demo:
	@sh scripts/venv.sh all
	@.venv/bin/python -m tests.demo

test:
	@sh scripts/venv.sh dev
	@sh scripts/check.sh

drift:
	@sh scripts/drift.sh

clean:
	@rm -rf .venv .venv-drift .work .mypy_cache .ruff_cache .hypothesis
