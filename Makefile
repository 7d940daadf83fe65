# Everything sets up what it needs: a virtual environment in .venv, and for the tests the real agent CLIs, pinned by
# tests/real/package-lock.json, in a cache outside the tree.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
SEED ?= 0
# More than the two cores of a small machine: some tests wait for time to pass.
WORKERS ?= 8
# Two processes, each with its own part: workers of one would collect all tests each.
# Their files are in memory, where there is such a place: a disk takes longer for each fsync than a test for the rest.
# Each plugin is asked before and after each test.
UNUSED := cacheprovider doctest faulthandler hypothesispytest legacypath logging pastebin platformdirs setuponly setupplan \
  subtests unittest xdist xdist.looponfail
UNIT := $(if $(wildcard /dev/shm),TMPDIR=/dev/shm) $(PYTEST) -q --unit $(addprefix -p no:,$(UNUSED)) --capture=sys -o tmp_path_retention_policy=failed
UNIT_1 := $(addprefix tests/,api/ broker/ cli/ conversations/ model/ store/ teams/ turns/)

unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test unit check lint format bench agents conformance drift soak docs picture clean
help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "beam needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

agents: $(VENV)/.ready ## install the pinned real agent CLIs into the cache
	@$(BIN)/python -m tests.real.install

demo: $(VENV)/.ready ## two scripted agents talk; their journal and the activity are shown
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh

# The unit tests run before, for each worker collects all tests that it is given. The bytecode is made while the agent
# CLIs are fetched.
test: $(VENV)/.ready ## the tests, with the real agent CLIs where npm is (docs/tests.md)
	@if [ ! -d .pytest_cache ]; then $(PYTEST) -q --collect-only >/dev/null 2>&1 & fi; \
	$(BIN)/python -m tests.real.install; installed=$$?; wait; exit $$installed
	@$(MAKE) --no-print-directory unit; unit=$$?; \
	$(PYTEST) -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --beyond-unit -m 'not soak and not conformance' && exit $$unit

unit: $(VENV)/.ready ## the quick tests, in some seconds
	@$(UNIT) $(UNIT_1) & first=$$!; $(UNIT) tests $(addprefix --ignore=,$(UNIT_1)); second=$$?; wait $$first && exit $$second

conformance: $(VENV)/.ready ## every agent CLI and every case, in each mode, written into beam/agents/conformance.json; and more over ACP
	@$(BIN)/python -m tests.real.install
	BEAM_REQUIRE_REAL_AGENTS=1 BEAM_WRITE_CONFORMANCE=1 $(PYTEST) -q -n 2 --dist loadfile tests/conformance -m real
	BEAM_REQUIRE_REAL_AGENTS=1 $(PYTEST) -q -n 2 --dist loadfile tests/real -m conformance
	BEAM_REQUIRE_REAL_AGENTS=1 $(PYTEST) -q -n 2 --dist load tests/real/test_acp_dialogue.py
	BEAM_WRITE_DOCS=1 $(PYTEST) -q tests/test_docs.py tests/conformance/test_conformance_table.py

drift: $(VENV)/.ready ## what changed in each agent CLI since the pinned version (CLIS="claude qwen@0.24.4": only these)
	@$(BIN)/python -m tests.real.install
	@$(BIN)/python -m tests.real.newest $(CLIS)

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint test ## format, lint, types, import contracts, tests

format: $(VENV)/.ready ## format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(VENV)/.ready ## write the generated parts of docs/
	BEAM_WRITE_DOCS=1 $(PYTEST) -q tests/test_docs.py tests/cli/test_declared.py

bench: $(VENV)/.ready ## measure, as ratios in one run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@$(BIN)/python -m tests.real.install
	@$(BIN)/python -m bench

soak: $(VENV)/.ready ## the long runs
	@$(BIN)/python -m tests.real.install
	$(PYTEST) -q -m soak --soak-seed $(SEED)

picture: $(VENV)/.ready ## draw the pictures in docs from real runs
	@TZ=UTC $(BIN)/python -m bench.picture

clean: ## remove what make made here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
