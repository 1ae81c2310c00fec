# `make demo` and `make test` need nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

FLOOR  ?= .venv-floor

.PHONY: demo docs test test-floor lint package results clean

demo: $(VENV)/.installed
	$(BIN)/multicause demo

test: $(VENV)/.installed-dev lint
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n auto -m "not slow"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages with their gallery, which takes some minutes the first time; needs no network once installed
docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html
	@echo "Look at docs/_build/html/index.html"

# The oldest versions that pyproject.toml admits, in an environment of their own, and the tests that would notice
FLOOR_TESTS := $(patsubst %,tests/test_%.py,package kernels learning persistence tables sources kernel_cache plotting)
test-floor: $(FLOOR)/.installed
	$(FLOOR)/bin/python -m pytest -n auto -m "not slow" -k "not greedy and not missing" $(FLOOR_TESTS)

# Wheel and sdist, each installed into an environment of its own and asked for a fit
package: $(VENV)/.installed-dev
	$(BIN)/python .ci/check_package.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "multicause needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed pyproject.toml
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed pyproject.toml
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(FLOOR)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FLOOR)
	$(FLOOR)/bin/python -m pip install --quiet --upgrade uv
	$(FLOOR)/bin/uv pip install --quiet --python $(FLOOR)/bin/python --resolution lowest-direct --group test --editable .
	touch $@

# RESULTS.md and README's table of figures from benchmarks/records; `make results FROM=results` first takes over what `multicause reproduce` wrote there
results: $(VENV)/bin/python
	$(BIN)/python benchmarks/results.py $(FROM)

clean:
	rm -rf $(VENV) $(FLOOR) demo results docs/_build docs/_figures docs/auto_examples docs/api/generated docs/results .pytest_cache .ruff_cache .mypy_cache .hypothesis
