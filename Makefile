# Every target sets up what it needs in .venv, once; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Only pinned releases, and of them only files whose SHA-256 is known; the same holds for what builds them.
PINNED := $(PIP) --require-hashes --constraint constraints.txt --build-constraint constraints.txt
SETUP := $(VENV)/.installed
# The requirements of one part of pyproject.toml, to be read by pip: it cannot check hashes where it is given a folder.
needs = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]$(1), sep="\n")'

.PHONY: help setup demo test test-slow test-faults lint bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: $(SETUP) ## install seqloom into .venv

demo: $(SETUP) ## train the ladder of models on bundled data and write a report
	$(BIN)/seqloom quickstart

test: $(VENV)/.oracles ## run the whole test suite, on up to eight cores
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

test-slow: $(VENV)/.installed-test ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-faults: $(VENV)/.installed-test ## kill, damage and disturb every kind of run, and count what it survives
	$(BIN)/python -m pytest tests/faults -m faults --numprocesses auto --maxprocesses 8 --timeout 0

lint: $(VENV)/.installed-lint ## check style and types
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

# The pip that comes with Python may be too old to check the hashes of constraints, so it is replaced first. torch goes
# alone, so that pip settles which build of it this machine gets before anything depends on it: one in a folder of wheels
# that pip is told of (a build for CPUs, say), else that of the index.
$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "seqloom needs Python 3.11 or newer: make PYTHON=...")'
	@echo "seqloom: installing into $(VENV) (once, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@sed -n '/^pip==/,/[^\\]$$/p' constraints.txt > $(VENV)/pip.txt
	@$(PIP) --require-hashes --requirement $(VENV)/pip.txt
	@echo "seqloom: 1/2 torch"
	@$(PINNED) -qq --no-index --no-deps torch || true
	@$(PINNED) torch
	@echo "seqloom: 2/2 seqloom and the rest"
	@$(call needs,["dependencies"]) | $(PINNED) --requirement /dev/stdin
	@$(PIP) --build-constraint constraints.txt --no-deps --editable .
	@touch $@

# Without a compiler or Java these tests are skipped and say so: everything else can be tested all the same.
$(VENV)/.oracles: $(VENV)/.installed-test
	@echo "seqloom: installing KenLM and pyspark to compare with (once)"
	@$(call needs,["optional-dependencies"]["oracles"]) | $(PINNED) --requirement /dev/stdin \
		|| echo "seqloom: not installed: tests against KenLM and Spark will be skipped"
	@touch $@

$(VENV)/.installed-%: $(SETUP)
	@echo "seqloom: installing the $* extra into $(VENV) (once)"
	@$(call needs,["optional-dependencies"]["$*"]) | $(PINNED) --requirement /dev/stdin
	@touch $@
