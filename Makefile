# Two commands matter to a newcomer, and both set everything up themselves:
#   make crawl    crawl the demo site, or URL=https://... (the first 100 pages, PAGES= for more)
#   make test     run the tests
# `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Test processes. Five on two cores: much of the time a test waits for a server, a lease or a delay.
JOBS ?= 5
# Where make crawl URL=... stops: for a first look, and not for a whole site.
PAGES ?= 100
# Passed on to pytest: make test ARGS="-k lease"
ARGS ?=
# make test SERVERS=none installs no servers, and runs the tests that need none.
SERVERS ?= all
# make lock UPGRADE=--upgrade takes the newest versions; without it the present pins are kept.
UPGRADE ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP  := $(BIN)/python -m pip --quiet
# $(call install,PYTHON,WHAT): by uv, which takes a fifth of pip's time; by pip where uv does not find the packages, because
# only pip is configured for the index in use.
install = $(BIN)/uv pip install --quiet --python $(1) $(2) || $(1) -m pip --quiet install $(2)
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

.DEFAULT_GOAL := help
.PHONY: help crawl test lowest pythons check soak bench docs site lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

crawl: $(VENV)/.runtime ## crawl the demo site, or the site given with URL=
ifdef URL
	$(BIN)/skitter crawl $(URL) --max-pages $(PAGES) -O 'build/{job}-{part}.jsonl'
else
	$(BIN)/python -m skitter.testing.demo
endif

WITHOUT_SERVERS := tests/unit tests/contract/test_memory.py tests/contract/test_sqlite.py \
	tests/stateful/test_sqlite_agrees.py tests/integration/fetch tests/integration/worker tests/acceptance/test_crawl.py

test: $(VENV)/.dev ## run the tests (CHANGED=1: what a change can break; ARGS= for pytest, JOBS= processes)
	@$(if $(filter none,$(SERVERS)),,scripts/services --install)
	@set -e; files='$(if $(filter none,$(SERVERS)),$(WITHOUT_SERVERS))'; \
		$(if $(CHANGED),files=$$($(BIN)/python scripts/changed_tests.py $(CHANGED));) set -x; \
		$(BIN)/python -m pytest -n $(JOBS) $(ARGS) $$files

# The lower bounds of pyproject.toml, which the locked versions do not prove, in an environment of their own.
LOWEST := build/lowest

lowest: $(VENV)/.dev ## run tests with the oldest versions that pyproject.toml allows (ARGS= for pytest)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --all-extras --python $(LOWEST)/bin/python \
		--no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python \
		-r $(LOWEST)/requirements.txt --group dev -c $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation -e .
	$(LOWEST)/bin/python -m pytest -n $(JOBS) $(ARGS) $(WITHOUT_SERVERS)

# As a newcomer has them, in fresh systems of Debian in build/pythons. The first time takes some minutes.
pythons: ## run a crawl and tests in fresh systems with Python 3.13 and 3.14 (as root; MIRROR= of Debian)
	$(PYTHON) scripts/pythons.py

check: $(VENV)/.dev ## lint, format, types, import directions, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/gen_reference.py --check
	$(BIN)/python scripts/check_docs.py
	@$(MAKE) --no-print-directory site

# Without SOAK_MINUTES all of it, which takes a night. Each test gets the seed after that of its last run.
SOAK_MINUTES ?= 0
SOAK_SEED ?=

soak: $(VENV)/.dev ## run the long tests (SOAK_MINUTES= as many as fit, SOAK_SEED= again); see build/soak-report.txt
	@scripts/services --install
	@rm -rf build/fault-report
	$(BIN)/python -m pytest -m "soak or not soak" --hypothesis-profile=soak --timeout=7200 \
		--soak-minutes=$(SOAK_MINUTES) $(if $(SOAK_SEED),--soak-seed=$(SOAK_SEED)) $(ARGS)

# Those with a section in docs/benchmarks.md, but for dedup. On two cores about an hour in all, a third of it for ladder, a
# quarter of an hour for site and ten minutes each for million and broad. The others: make bench BENCH="frontier traps". With BENCH=site
# alone, ARGS are its own: make bench BENCH=site ARGS="--rounds 5".
BENCH ?= site start workers scaling ladder simulation million broad recrawl intakes scrapy

bench: $(VENV)/.dev ## measure, and write docs/benchmarks.md (BENCH= for some of it, ARGS= for its options)
	@set -e; for name in $(BENCH); do \
		script=bench/bench_$$name.py; write=; \
		if grep -q '"--write"' $$script; then write=--write; fi; \
		echo "== $$script" $$write $(ARGS); $(BIN)/python $$script $$write $(ARGS); \
	done

docs: $(VENV)/.dev ## write the generated reference pages and check all links
	$(BIN)/python scripts/gen_reference.py
	$(BIN)/python scripts/check_docs.py

# An environment of its own: the tests need nothing of it.
SITE_VENV := build/site-venv

site: $(SITE_VENV)/.installed ## render the documentation to build/site/VERSION/; a broken link or anchor fails
	$(SITE_VENV)/bin/python scripts/build_site.py

$(SITE_VENV)/.installed: requirements-docs.lock | $(VENV)/.runtime
	$(BIN)/python -m venv --clear $(SITE_VENV)
	$(call install,$(SITE_VENV)/bin/python,--require-hashes -r requirements-docs.lock)
	@touch $@

lock: $(VENV)/.dev ## pin the dependencies again, with hashes (UPGRADE=--upgrade for the newest)
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --group build -c requirements.lock -o requirements-build.lock
	$(LOCK) pyproject.toml --group dev --all-extras -c requirements.lock -c requirements-build.lock -o requirements-dev.lock
	$(LOCK) --group docs -o requirements-docs.lock

clean: ## remove the environment, caches and reports; crawls in .skitter/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests scripts -type d -name __pycache__ -prune -exec rm -rf {} +

# The environment. A crawl needs the runtime lock only; tests and checks add the rest on top.
# The stamps are older than a lock that changed, and only then is anything installed again.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'error: Python 3.11 or newer is needed' >&2; \
		echo 'hint: name one with PYTHON=, as in: make crawl PYTHON=python3.12' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements-build.lock
	$(call install,$(BIN)/python,--require-hashes -r requirements.lock)
	$(call install,$(BIN)/python,--no-deps --no-build-isolation -e .)
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(call install,$(BIN)/python,--require-hashes -r requirements-dev.lock)
	@touch $@
