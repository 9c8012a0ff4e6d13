# `make demo` and `make test` are all that a new user needs; both install what is missing.
VENV ?= .venv
PYTHON ?= python3
HOSTS ?= 2
BIN := $(VENV)/bin

.PHONY: install lint check test test-engines test-others test-heavy test-kills bench oracle demo fleet-up fleet-down clean

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

test: lint  ## everything: also the tests on a real fleet with real vLLM (root on Debian)
	$(BIN)/python -m tests.fleet env --kv-transfer
	$(MAKE) --no-print-directory --jobs=2 $(if $(CI),--output-sync) test-engines test-others

# The two halves of `make test` run beside each other, each with fleets of its own. The tests that
# want no other fleet are the first of one half, while the other needs none yet.
test-engines: install  ## what runs real vLLM
	ORC_FLEET_SEVERAL=1 $(BIN)/python -m pytest -m "(vllm or alone) and not heavy" --durations=25
test-others: install  ## what does not
	ORC_FLEET_SEVERAL=1 $(BIN)/python -m pytest -q -m "not (vllm or alone or heavy)" --durations=25

test-heavy: install  ## prefill/decode by NIXL with real vLLM: it can starve a machine of two cores
	$(BIN)/python -m tests.fleet env --kv-transfer
	$(BIN)/python -m pytest -m heavy

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
