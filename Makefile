# Everything here sets itself up: Python 3.11+, Node 20+, make and package registries are all that a machine needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -q --disable-pip-version-check --no-input

export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

.PHONY: help demo test e2e check assets synth bench chaos hostile fuzz setup clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, crawl a small site served on loopback, show the result"
	@echo "make test    set up what the tests need and run them all"
	@echo "make e2e     the long runs: the deployed stack crawled to its end, each kind of fetcher"
	@echo "make check   format, lint and types"
	@echo "make assets  build the code of the Lambda functions into .cache/assets/ (cdk deploy does it, too)"
	@echo "make synth   synthesize the AWS stack into cdk.out/ (no account needed)"
	@echo "make picture draw the dashboard's layout from the template into docs/"
	@echo "make bench   CPU a page beside a naive loop; AWS requests a page"
	@echo "make chaos   5,000 pages on each backend while workers are killed"
	@echo "make hostile 2,000 URLs of a site that answers at random from a grammar of broken HTTP, three times"
	@echo "make fuzz    ten minutes of mutated bodies through decoder and parser"
	@echo "make clean   remove what these made"

# ---------------------------------------------------------------- environments

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

# The base install: what `crawler crawl` on SQLite needs, and nothing else.
$(VENV)/.base: requirements/base.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install $(PIP) --require-hashes -r requirements/base.lock
	$(BIN)/pip install $(PIP) --no-deps -e .
	@touch $@

$(VENV)/.all: requirements/all.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install $(PIP) --require-hashes -r requirements/all.lock
	$(BIN)/pip install $(PIP) --no-deps -e .
	@touch $@ $(VENV)/.base

# What the tests start as servers: the AWS emulator (it pins another botocore) and a Redis for where there is none.
.venv-emulator/.done: requirements/emulator.lock
	$(PYTHON) -m venv .venv-emulator
	.venv-emulator/bin/pip install $(PIP) --require-hashes -r requirements/emulator.lock
	@touch $@

setup: $(VENV)/.all .venv-emulator/.done

# ---------------------------------------------------------------- what people run

demo: $(VENV)/.base
	@$(BIN)/python -m crawler.entrypoints.demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not long"

e2e: setup
	$(BIN)/python -m pytest -m long

check: $(VENV)/.all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

assets: $(VENV)/.all
	$(BIN)/python -m infra.bundle

synth: $(VENV)/.all
	$(BIN)/python -m infra.app
	@echo "the template is in cdk.out/; deploy it with: npx aws-cdk@2 deploy"

picture: $(VENV)/.all
	$(BIN)/python -m infra.picture

bench: setup
	$(BIN)/python -m bench.run crawl
	$(BIN)/python -m bench.run aws

chaos: setup
	$(BIN)/python -m tests.chaos

hostile: setup
	$(BIN)/python -m tests.hostile

fuzz: setup
	$(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) .venv-emulator .cache cdk.out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-crawl
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
