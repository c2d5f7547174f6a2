# Every verb sets up what it needs. `make help` lists them; CI and pre-commit call the same ones.

VENV ?= .venv
# 0: a normal install, as a user has it, instead of an editable one. Give it a VENV of its own.
EDITABLE ?= 1
CONSTRAINTS ?= constraints.txt
PYTHON ?= $(firstword $(foreach name,python3.11 python3,$(if $(shell $(name) -c '' 2>/dev/null && echo yes),$(name))))
# More arguments for pytest, e.g. make test ARGS="tests/reward -x"
ARGS ?=

FLOORS := envs reward agents deploy_bridge experiments
# What must pass where only the base install is: no torch, no SB3, no Gymnasium, no Numba, no MLflow.
BASE_TESTS := tests/test_packaging.py tests/test_base_install.py $(wildcard tests/envs/schema tests/reward tests/agents/baselines tests/deploy_bridge)

ifneq ($(wildcard ../shared/traces/.),)
export GATEPILOT_TRACES ?= $(abspath ../shared/traces)
endif

ifeq ($(EDITABLE),0)
TARGET := ".[train,testbed,dev]"
SOURCES := $(shell find __init__.py py.typed $(FLOORS) -type f -not -name '*.pyc')
export GATEPILOT_INSTALLED := 1
else
TARGET := -e ".[train,testbed,dev]"
endif

BIN := $(abspath $(VENV))/bin
PY := $(BIN)/python
STAMP := $(VENV)/.gatepilot-stamp
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup python prometheus demo test slow check lint typecheck imports docs lengths bench bars base

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## .venv with everything, and the links that let type checkers and docs find gatepilot

$(STAMP): pyproject.toml constraints.txt $(SOURCES)
	@$(MAKE) python
	$(PYTHON) -m venv $(VENV)
	rm -rf build gatepilot.egg-info
	$(PY) -m pip install --disable-pip-version-check -q -c $(CONSTRAINTS) $(TARGET)
	mkdir -p .typecheck/floors/gatepilot
	ln -sfn "$(CURDIR)" .typecheck/gatepilot
	for name in __init__.py $(FLOORS); do ln -sfn "$(CURDIR)/$$name" .typecheck/floors/gatepilot/$$name; done
	touch $@

# Debian ships Python without the part that makes environments; root may add it.
python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (as python3.11 or python3)."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V)."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-venv; \
		else \
			echo "Python's venv module is incomplete: install the package python3-venv, then run make again."; exit 1; \
		fi

# Debian's package would start a service, so only its programs are taken out of it. No root is needed
# where apt knows its packages already.
prometheus: $(STAMP)  ## Prometheus and promtool beside the environment's Python, unless they are there
	@PATH="$(BIN):$$PATH"; { command -v prometheus && command -v promtool; } >/dev/null || { \
		command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || \
			{ echo "Prometheus is missing: put its program on the PATH (prometheus.io/download)."; exit 1; }; \
		work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && cd "$$work" && \
		get="apt-get -q -o APT::Sandbox::User=root" && \
		{ $$get download prometheus 2>/dev/null || \
			{ test "$$(id -u)" = 0 && $$get update && $$get download prometheus; } || \
			{ echo "Prometheus is missing: as root, apt-get update; then run make again."; exit 1; }; } && \
		dpkg-deb -x prometheus_*.deb unpacked && install -m 755 unpacked/usr/bin/prometheus unpacked/usr/bin/promtool $(BIN)/; \
	}

demo: $(STAMP)  ## the main job in a few minutes, without any service
	$(BIN)/gatepilot demo

test: $(STAMP)  ## the fast suite, then the tests with a real Envoy and a real Prometheus
	@$(MAKE) prometheus || echo "Tests that need it are skipped."
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not live" $(ARGS)
	$(BIN)/pytest -m "live and not slow" --timeout 120 $(ARGS) || test $$? = 5  # 5: ARGS hold none

slow: $(STAMP)  ## the long properties and trainings
	$(BIN)/pytest -m slow $(ARGS)

check: lint typecheck imports docs lengths  ## everything that reads the code without running it

lint: $(STAMP)  ## ruff (lint and format) and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

typecheck: $(STAMP)  ## mypy over the code, then over the tests
	$(BIN)/mypy
	$(BIN)/mypy tests

imports: $(STAMP)  ## the layers of the house (import contracts in pyproject.toml)
	$(BIN)/lint-imports

docs: $(STAMP)  ## the documentation, into site/
	$(BIN)/mkdocs build --strict  # not --quiet: it hides the warnings from --strict too

lengths:  ## files over 300 lines: a report, not a failure
	@find $(FLOORS) tests benchmarks -name '*.py' -exec wc -l {} + 2>/dev/null | \
		awk '$$2 != "total" && $$1 > 300 {print "over 300 lines, two subjects? " $$2 " (" $$1 ")"}'

bench: $(STAMP)  ## speed of the engine, of the environments and of training
	$(PY) benchmarks/bench.py $(ARGS)

bars: $(STAMP)  ## the project's measured figures, resumable
	$(PY) benchmarks/bars.py $(ARGS)

# The wheel is made from the sdist, so whatever either of them forgets is missing here.
base: $(STAMP)  ## sdist, wheel, and the base install alone in a throw-away environment
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && set -e && \
	$(PY) -m build --outdir "$$work/dist" . >"$$work/log" 2>&1 || { cat "$$work/log"; exit 1; } && \
	$(PYTHON) -m venv "$$work/venv" && \
	"$$work/venv/bin/python" -m pip install --disable-pip-version-check -q -c $(CONSTRAINTS) \
		"$$work"/dist/*.whl pytest pytest-timeout hypothesis && \
	GATEPILOT_INSTALLED=1 GATEPILOT_BASE=1 "$$work/venv/bin/pytest" -m "not slow and not live" $(BASE_TESTS)
