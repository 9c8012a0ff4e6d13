# `make demo` and `make test` are all that a new user needs; both install what is missing.
VENV ?= .venv
PYTHON ?= python3
HOSTS ?= 2
BIN := $(VENV)/bin

.PHONY: install check test fast demo fleet-up fleet-down clean

install: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

check: install  ## lint, types, import contracts and the tests that need no host
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -m "not fleet"

fleet-up: install  ## HOSTS=2 hosts of namespaces with sshd, docker and real vLLM; needs root on Debian
	$(BIN)/python -m tests.fleet up --hosts $(HOSTS)

fleet-down: install  ## remove them, and what a crashed test left
	$(BIN)/python -m tests.fleet down
