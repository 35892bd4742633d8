SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: help demo test lint cluster cluster-down bench

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(READY): pyproject.toml
	@command -v python3 >/dev/null || { echo "make: python3 is missing: install Python 3.11 or later"; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $$(python3 --version) is too old: Python 3.11 or later is needed"; exit 1; }
	@echo "==> setting up $(VENV)"
	@test -x $(PY) || python3 -m venv $(VENV) || { echo "make: python3 -m venv failed: install your system's python3-venv package"; exit 1; }
	@$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	@$(PY) -m pip install --quiet --progress-bar off --editable . --group dev
	@touch $@

demo: $(READY) ## the main job in about a minute: balance with and without steering
	@$(VENV)/bin/trimtab demo

lint: $(READY) ## ruff, mypy --strict and the import contracts
	@echo "==> ruff"; $(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check .
	@echo "==> mypy"; $(VENV)/bin/mypy
	@echo "==> import contracts"; $(VENV)/bin/lint-imports

test: lint ## everything: lint, then all tests, the real control plane included
	@echo "==> building the control plane (slow once, then cached)"; $(PY) -m tests.cluster build
	@echo "==> pytest"; $(VENV)/bin/pytest

cluster: $(READY) ## a real control plane with 20 simulated nodes and Trimtab installed
	@$(PY) -m tests.cluster up

cluster-down: $(READY) ## stop what make cluster started
	@$(PY) -m tests.cluster down

bench: $(READY) ## admissions a second and latency beside a no-op webhook, as JSON
	@$(PY) -m tests.bench
