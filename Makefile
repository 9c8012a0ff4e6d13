# `make demo` and `make test` are all that a new user needs; both install what is missing.
VENV ?= .venv
PYTHON ?= python3
HOSTS ?= 2
BIN := $(VENV)/bin

.PHONY: install lint check test test-pure test-alone test-fleets fleet-env test-kills bench oracle demo fleet-up fleet-down clean

install: $(VENV)/.installed
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tests
	$(BIN)/lint-imports

check: lint  ## lint, types, import contracts and the tests that need no fleet
	$(BIN)/python -m pytest -q -m "not fleet"

test: install  ## everything: also the tests on real fleets with real vLLM (root on Debian)
	$(MAKE) --no-print-directory --jobs=3 $(if $(CI),--output-sync) lint fleet-env test-pure test-fleets

# Every test is in one of these three.
PYTEST := ORC_FLEET_SEVERAL=1 $(BIN)/python -m pytest -q --durations=25
test-pure: install  ## what needs neither a fleet nor vLLM
	$(PYTEST) -m "last or not (fleet or vllm)"
test-alone: fleet-env  ## what no other fleet may be beside
	$(PYTEST) -m alone
test-fleets: test-alone  ## the rest: three at a time, each with fleets of its own
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m "(fleet or vllm) and not (alone or last)"

fleet-env: install
	$(BIN)/python -m tests.fleet env --kv-transfer

test-kills: install  ## orc killed at 50 random moments of up, roll and down: about ten minutes
	ORC_KILLS=50 $(BIN)/python -m pytest -s tests/e2e/test_killed.py

bench: install  ## planning 64 to 4,096 hosts against the targets; listing recipes with an index
	$(BIN)/python -m benchmarks.plan_scale --check
	$(BIN)/python -m benchmarks.recipes_list

demo: install  ## the main job on a real fleet on this machine (root on Debian)
	$(BIN)/python -m tests.fleet.demo

fleet-up: install  ## HOSTS=2 hosts of namespaces with sshd, docker and real vLLM; root on Debian
	$(BIN)/python -m tests.fleet up --hosts $(HOSTS)

fleet-down: install  ## remove them, and what a crashed test left
	$(BIN)/python -m tests.fleet down

clean: fleet-down
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

oracle: install  ## every rendering of the public site's snapshot against ours
	$(BIN)/python -m pytest -q -s -rs tests/recipes/test_oracle.py
