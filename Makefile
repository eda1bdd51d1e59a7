# eventsieve: every target sets up what it needs first. `make` alone explains itself.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WORKERS ?= auto
# Files are handed out in the order that tests/conftest.py gives them, not by their number of tests.
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST_ARGS ?=
BENCH_ARGS  ?= --workload bop --n 100000 --matchers simple --events 100

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all lint types imports unit format bench kafka kafka-stop clean

help: ## Show this help
	@echo "eventsieve: match events against millions of subscriptions"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12      the interpreter a new $(VENV) is made with (3.11 or newer)"
	@echo "  PYTEST_ARGS='-k cli'   more arguments for pytest; WORKERS=0 runs the tests in one process"
	@echo "  BENCH_ARGS='...'       arguments of \`eventsieve bench\` for \`make bench\`"

setup: $(STAMP) ## Make .venv and install everything into it; skipped when nothing changed

# pyproject.toml says what is installed, constraints.txt in which version: the stamp is as old as the last install.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing eventsieve and what it needs into $(VENV) (the first time takes a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "eventsieve needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

run: setup ## Run the pipeline: a catalog of 100,000 subscriptions, a stream on Spark, live changes
	@$(BIN)/eventsieve demo

test: setup lint types imports unit ## Format, lint, types, import contract, quick tests and doctests

test-all: setup ## What is slow: deep tests, and every property test with many more examples
	HYPOTHESIS_PROFILE=deep $(PYTEST) -m "deep or hypothesis" $(PYTEST_ARGS)

unit: setup
	$(PYTEST) -m "not deep" $(PYTEST_ARGS)

lint: setup ## Check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --no-logo

format: setup ## Rewrite the sources in the one format, fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Time matchers on a standard workload (see BENCH_ARGS)
	$(BIN)/eventsieve bench $(BENCH_ARGS)

kafka: setup ## Start a Kafka server on this machine (Maven brings it) and say where it is
	@$(BIN)/python -m tools.kafka start

kafka-stop: setup ## Stop that Kafka server; its topics are kept
	@$(BIN)/python -m tools.kafka stop

clean: ## Remove the virtual environment and every cache in this folder
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests experiments tools -name __pycache__ -type d -prune -exec rm -rf {} +
