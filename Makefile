# Everything here needs only Python >= 3.11 with venv. Another Python: PYTHON=python3.13 make up
# (it gets a virtual environment of its own). Further flags: make test ARGS="-k settings".

PYTHON ?= python3
VENV   ?= $(if $(filter python3,$(PYTHON)),.venv,.venv-$(lastword $(notdir $(PYTHON))))
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
LOCK   := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
          --no-header --no-annotate --no-emit-index-url --no-emit-find-links
ARGS   ?=
NO_PACKAGES = echo "make: pip could not install what $< lists, for the reason above. Without a network, name a folder" \
              "that has the packages: PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make ..." >&2; exit 1

# Container images often disable Python's bytecode cache; each of the hundreds of processes that tests
# start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Independent targets beside each other: checks of types, of Lua and of the rest; both environments of the tests.
MAKEFLAGS += --jobs=2

LINTS := lint-types lint-lua lint-imports lint-style

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install up stop install-tests test lint $(LINTS) hosts agents install-agents servers install-servers \
  screenshots chaos test-cluster bench lock

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(VENV)/.installed ## Install the product into the virtual environment.

up: install ## Run a fleet here: embedded Redis, front-ends, workers; data in ./.fleet.
	@PATH="$(abspath $(BIN)):$$PATH" FLEET_CONFIG="$${FLEET_CONFIG:-config/gateway.yaml}" \
	  FLEET_DATA_DIR="$${FLEET_DATA_DIR:-./.fleet}" \
	  FLEET_FLOWS_DEMO_TOOLS="$${FLEET_FLOWS_DEMO_TOOLS:-true}" exec $(BIN)/fleet up $(ARGS)

stop: install ## Stop the fleet of make up, and wait for its end.
	@FLEET_DATA_DIR="$${FLEET_DATA_DIR:-./.fleet}" exec $(BIN)/fleet stop $(ARGS)

install-tests: $(VENV)/.installed-dev $(VENV)-servers/.installed

test: install-tests ## Run the tests.
	@exec $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(LINTS) ## Check style, types, import rules, Lua, scripts and file sizes.

$(LINTS): $(VENV)/.installed-dev

lint-types:
	$(BIN)/mypy

lint-lua:
	$(BIN)/python -m tests.lint.lua_lint

lint-imports:
	$(BIN)/lint-imports --no-cache

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/lint/file_sizes.py
	$(BIN)/python -m tests.lint.javascript

hosts: $(VENV)/.installed-dev $(VENV)-hosts/.installed ## Test with packages of hosts that conflict with the product's.
	@exec $(BIN)/pytest -m hosts tests/toolsets $(ARGS)

agents: install-agents ## Test with the real claude, codex, gemini and opencode, from npm (900 MB), and stand-ins of models.
	@exec $(BIN)/pytest -m agents --numprocesses 2 --dist loadfile --timeout 60 tests/runner/test_real_agents*.py $(ARGS)

install-agents: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.runner.real_agents

servers: install-servers ## Test with real MCP servers, from PyPI and npm (60 MB).
	@exec $(BIN)/pytest -m 'servers or not servers' tests/gateway/test_real_s*.py $(ARGS)

install-servers: $(VENV)/.installed-dev $(VENV)-servers/.installed
	@$(BIN)/python -m tests.support.real_servers

screenshots: $(VENV)/.installed-dev ## Compare the console's pages with pictures; UPDATE_SCREENSHOTS=1 renews them.
	@CHROMIUM="$${CHROMIUM:-chromium}" exec $(BIN)/pytest -m screenshots tests/console/test_screenshots.py $(ARGS)

chaos: $(VENV)/.installed-dev ## Kill everything, at every step, and test models longer: tests that take minutes.
	@MODEL_EXAMPLES=300 $(BIN)/pytest tests/items/test_model.py tests/items/test_together_model.py tests/items/test_limits_model.py
	@$(BIN)/pytest -m 'hypothesis and not chaos' --hypothesis-profile=ci tests
	@exec $(BIN)/pytest -m chaos tests $(ARGS)

test-cluster: $(VENV)/.installed-dev ## Test on clusters: all that uses the store on one shard, kills on 3 x 2, failovers, moves.
	@TEST_STORE=cluster $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(addprefix tests/, \
	  items worker flows sessions navigator gateway store overload feed) $(ARGS)
	@TEST_STORE=shards $(BIN)/pytest --numprocesses auto --dist loadfile -m 'chaos or not chaos' $(addprefix tests/, \
	  items/test_deaths.py items/test_limits_deaths.py items/test_processes.py items/test_attempts_fleet.py \
	  items/test_recurs_fleet.py workers/test_faults.py workers/test_kill_points.py) $(ARGS)
	@exec $(BIN)/pytest -m 'chaos or not chaos' tests/cluster $(ARGS)

bench: $(VENV)/.installed-dev ## Measure speed; prints ratios from one run on this machine. ARGS=--smallest shows that all benchmarks work.
	@exec $(BIN)/python -m benchmarks $(ARGS)

lock: $(VENV)/.created ## Renew all lock files; ARGS=--upgrade takes newer versions.
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(PIP) install uv
	$(LOCK) $(ARGS) --extra tracing --group build pyproject.toml -o requirements.lock
	$(LOCK) $(ARGS) --extra tracing --group dev -c requirements.lock pyproject.toml -o tests/requirements.lock
	$(LOCK) $(ARGS) --group hosts -o tests/hosts.lock
	$(LOCK) $(ARGS) --group servers -o tests/servers.lock

# Stamp files make repeated calls instant. Packages are installed from the lock, checked by hash.
$(VENV)/.created:
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: $(PYTHON) is missing or older than 3.11; name another one: PYTHON=python3.13 make ..." >&2; exit 1; }
	@[ -w . ] || { echo "make: $(CURDIR) cannot be written to, and $(VENV) and ./.fleet go there: use a copy" >&2; exit 1; }
	@'$(PYTHON)' -m venv $(VENV) || \
	  { echo "make: $(PYTHON) made no virtual environment; if it lacks the module venv, install it (Debian:" \
	    "apt-get install python3-venv), or name another one: PYTHON=python3.13 make ..." >&2; exit 1; }
	@touch $@

$(VENV)/.locked: requirements.lock $(VENV)/.created
	@echo "installing into $(VENV) ..."
	@$(PIP) install --require-hashes --no-deps -r requirements.lock || { $(NO_PACKAGES); }
	@touch $@

# The build backend is in the lock, so that this step needs no network.
$(VENV)/.installed: pyproject.toml coordinator/__init__.py $(VENV)/.locked
	@$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@

# Not compiled, because tests import a small part of it.
$(VENV)/.installed-dev: tests/requirements.lock $(VENV)/.installed
	@echo "installing what tests need ..."
	@$(PIP) install --no-compile --require-hashes --no-deps -r tests/requirements.lock || { $(NO_PACKAGES); }
	@touch $@

$(VENV)-hosts/.installed: tests/hosts.lock $(VENV)/.created
	@echo "installing into $(VENV)-hosts ..."
	@'$(PYTHON)' -m venv $(VENV)-hosts
	@$(VENV)-hosts/bin/python -m pip --disable-pip-version-check --no-input --quiet install \
	  --require-hashes --no-deps -r tests/hosts.lock || { $(NO_PACKAGES); }
	@touch $@

# Without pip and compiled files: it is made before each first run of the tests.
$(VENV)-servers/.installed: tests/servers.lock $(VENV)/.installed
	@echo "installing real MCP servers ..."
	@'$(PYTHON)' -m venv --without-pip $(VENV)-servers
	@$(PIP) --python $(VENV)-servers/bin/python install --no-compile --require-hashes --no-deps -r tests/servers.lock || \
	  { $(NO_PACKAGES); }
	@touch $@
