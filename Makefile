# Every target sets up what it needs in .venv, once; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SETUP := $(VENV)/.installed

.PHONY: help setup demo test test-slow lint bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: $(SETUP) ## install seqloom and what its tests need into .venv

demo: $(SETUP) ## train the ladder of models on bundled data and write a report
	$(BIN)/seqloom quickstart

test: $(VENV)/.oracles ## run the whole test suite, on up to eight cores
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8

test-slow: $(SETUP) ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

lint: $(SETUP) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-bench ## measure seqloom against its peers
	$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-docs ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove what was built, and .venv
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone, so that pip settles which build of it this machine gets before anything depends on it.
$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqloom needs Python 3.11 or newer: make PYTHON=...")'
	@echo "seqloom: installing into $(VENV) (once, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@echo "seqloom: 1/2 torch"
	@$(PIP) torch
	@echo "seqloom: 2/2 seqloom and the rest"
	@$(PIP) --editable '.[dev]'
	@touch $@

# Without a compiler or Java these tests are skipped and say so: everything else can be tested all the same.
$(VENV)/.oracles: $(SETUP)
	@echo "seqloom: installing KenLM and pyspark to compare with (once)"
	@$(PIP) --editable '.[dev,oracles]' || echo "seqloom: not installed: tests against KenLM and Spark will be skipped"
	@touch $@

$(VENV)/.installed-%: $(SETUP)
	@echo "seqloom: installing the $* extra into $(VENV) (once)"
	@$(PIP) --editable '.[dev,$*]'
	@touch $@
