# Two commands do all the set-up from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: setup demo test test-fast release-check coverage mutants docs lint format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"raters needs Python 3.11 or newer, found {v[0]}.{v[1]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/raters demo

# With CI=true, tests that need a browser fail where there is none; else they are skipped and counted.
# Tests often wait for processes, so three run on two cores, a file each, so that what tests of a file
# share is made once; and lint beside them: what it says comes last, and it fails `test` too.
test: setup
	@$(MAKE) --no-print-directory lint > $(VENV)/lint.txt 2>&1 & lint=$$!; \
	$(PYTEST) -rfE $(if $(CI),--require-browser); tests=$$?; \
	wait $$lint; linted=$$?; cat $(VENV)/lint.txt; \
	test $$tests -eq 0 -a $$linted -eq 0

# All tests but those marked slow, and without lint: two minutes on two cores.
test-fast: setup
	$(PYTEST) -m "not slow"

# What is published: the wheel is built and installed into fresh environments, without extras, with
# `train`, and with the lowest versions that pyproject.toml allows. Needs a network, no browser.
release-check: test
	$(BIN)/python -m pytest -q -rfE --durations=0 --release tests/package

# Lines and branches of the package that tests run, in all processes; no number is a bar.
coverage: setup
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage/html

# Whether tests notice 300 small mistakes, one at a time; at most 3 hours, resumes in build/mutants.jsonl.
mutants: setup
	$(BIN)/python benchmarks/mutants.py

# The site, in build/site; tables of options are renewed first. `make test` builds it too.
docs: setup
	$(BIN)/python docs/make_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-crowdkit build dist
