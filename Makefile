# The project in five words: demo, test, lint, bench, clean.
#
# A machine needs Python >= 3.11, make and git. Everything else comes into this folder: uv into .tools (where the machine
# has none), the rest into .venv. A finished step leaves a stamp, so that a second run fetches and installs nothing and
# needs no network. Steps add to .venv and never take away. Another Python: make test PYTHON=python3.13

PYTHON ?= python3
# How many processes run the tests; PYTEST_FLAGS adds anything else, such as PYTEST_FLAGS="-k add".
JOBS ?= 2
PYTEST_FLAGS ?=
DEMO_FLAGS ?=
BENCH_FLAGS ?=

BIN := .venv/bin
DEMO_READY := .venv/.ready-demo
TEST_READY := .venv/.ready-test
# The uv of the machine, or else one of our own.
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)
# Where the system has a store of certificates, trust what it trusts, as pip does.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt),)
export UV_SYSTEM_CERTS ?= 1
endif
# First with what is already on this machine, then with the network.
INSTALL = $(UV) pip install --python $(BIN)/python --constraints constraints.txt
define install
@echo 'Installing:$(1)'
@$(INSTALL) --quiet --offline $(1) 2>/dev/null || $(INSTALL) $(1)
endef

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "TensorPlay needs Python 3.11 or later; $(PYTHON) is: $$($(PYTHON) --version 2>&1)" >&2; \
  echo 'fix: name a later one, for example: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }
endef

DEMO_PROJECTS := pyproject.toml $(addsuffix /pyproject.toml,tensorplay_core tensorplay_composite tensorplay_cpu)
TEST_PROJECTS := $(addsuffix /pyproject.toml,backends/tensorplay_loopback backends/tensorplay_vulkan tensorplay_cuda)

.DEFAULT_GOAL := help
.PHONY: help demo test codegen lint bench clean constraints
EXAMPLE := examples/custom_op/src/fused_ops

help: ## say what there is
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## /  make \1	/'

demo: $(DEMO_READY) ## train a network on handwritten digits, on the CPU
	@$(BIN)/tensorplay demo $(DEMO_FLAGS)

# A file's tests stay in one process: tests/packaging builds and installs once. Many tests start programs, which would
# compile the sources each time where nothing may be written.
test: $(TEST_READY) ## run every test (fetches CuPy and the test tools, once)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_FLAGS)

codegen: $(TEST_READY) ## bring every generated file up to date, the example's too
	@$(BIN)/tensorplay codegen
	@$(BIN)/tensorplay codegen --contract $(EXAMPLE)/native_functions.yaml --out $(EXAMPLE)

lint: $(TEST_READY) ## check generated files, style, types and the floors
	$(BIN)/tensorplay codegen --check
	$(BIN)/tensorplay codegen --check --contract $(EXAMPLE)/native_functions.yaml --out $(EXAMPLE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEMO_READY) ## measure what a call costs, as ratios to NumPy in the same process
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python benchmarks/call_path.py $(BENCH_FLAGS)

clean: ## remove .venv, .tools and everything that building and testing left
	rm -rf .venv .tools dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Not for every day: renew the pins, by version alone; an index and its hosts have no place in a repository.
constraints: $(TEST_READY)
	@{ grep '^#' constraints.txt; \
	  $(UV) pip compile --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate --all-extras \
	    --group dev --group peers --group programs pyproject.toml tensorplay_*/pyproject.toml backends/*/pyproject.toml \
	  | grep -v '^-e'; } > .venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

$(DEMO_READY): $(DEMO_PROJECTS) constraints.txt | $(BIN)/python
	$(call install, --compile-bytecode -e tensorplay_core -e tensorplay_composite -e tensorplay_cpu -e .)
	@touch $@

$(TEST_READY): $(TEST_PROJECTS) $(DEMO_READY)
	$(call install, --group dev -e backends/tensorplay_loopback -e backends/tensorplay_vulkan -e tensorplay_cuda)
	@touch $@

$(BIN)/python: | $(filter .tools/%,$(UV))
	$(CHECK_PYTHON)
	$(UV) venv --no-project --no-python-downloads --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" --allow-existing .venv

.tools/bin/uv: | constraints.txt
	$(CHECK_PYTHON)
	@$(PYTHON) -m venv .tools || { \
	  echo 'fix: this Python has no venv; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	.tools/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@touch $@
