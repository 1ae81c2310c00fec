# `make demo` and `make test` need nothing but Python >= 3.11 and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint results clean

demo: $(VENV)/.installed
	$(BIN)/multicause demo

test: $(VENV)/.installed-dev lint
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n auto -m "not slow"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

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

# RESULTS.md from benchmarks/records; `make results FROM=results` first takes over what `multicause reproduce` wrote there
results: $(VENV)/bin/python
	$(BIN)/python benchmarks/results.py $(FROM)

clean:
	rm -rf $(VENV) demo results .pytest_cache .ruff_cache .mypy_cache .hypothesis
