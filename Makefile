# Two commands matter: `make run` (the matrix, for real) and `make test` (all checks). Both set up what they need.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
MATRIX ?= matrix.yaml
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
STATE ?= .cache/engine

.PHONY: help setup run test lint types unit docker docker-stop soak schema clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: setup ## run every cell that this host can run; ARGS='-k "tp=1"' passes options on
	$(BIN)/python -m runner $(MATRIX) $(ARGS)

test: setup lint types unit ## lint, types and tests; docker tests where an engine answers (REQUIRE_DOCKER=1: must)

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy

unit: setup ## pytest; judged by its report too, since a test that leaves by os._exit(0) exits green
	@mkdir -p .cache && rm -f .cache/unit.xml
	$(BIN)/pytest --junitxml .cache/unit.xml $(ARGS)
	$(BIN)/python -m runner explain --junit .cache/unit.xml --exit-code 0 --json | grep '"outcome": "passed"'

docker: ## install and start a Docker engine (Debian or Ubuntu, root, no init system needed)
	scripts/engine-start.sh $(STATE)

docker-stop: ## stop the engine that `make docker` started
	scripts/engine-stop.sh $(STATE)

setup: $(VENV)/.done ## the virtual environment of the runner

$(VENV)/.done: pyproject.toml runner/version.py
	scripts/system-packages.sh
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %d.%d; set PYTHON=" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,nvidia]'
	touch $@

soak: setup ## kill runners and containers at random: SEEDS=1-100, RESULTS=FILE; ARGS=--private-engine kills a daemon too
	nice -n 15 $(BIN)/python tests/soak/soak.py --seeds $(SEEDS) --results $(or $(RESULTS),.cache/soak.jsonl) $(ARGS)

schema: setup ## write the JSON Schema of matrix files anew
	$(BIN)/python -m runner.matrix.json_schema > runner/matrix/matrix.schema.json

clean: setup ## remove what dead runners left behind (containers with this tool's labels only)
	$(BIN)/python -m runner clean
