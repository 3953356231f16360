# Two commands matter to a newcomer, and both set everything up themselves:
#   make crawl    crawl the demo site, or URL=https://... (the first 100 pages, PAGES= for more)
#   make test     run the tests
# `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Test processes. Three on two cores: much of the time a test waits for a server, a lease or a delay.
JOBS ?= 3
# Where make crawl URL=... stops: for a first look, and not for a whole site.
PAGES ?= 100
# Passed on to pytest: make test ARGS="-k lease"
ARGS ?=
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
.PHONY: help crawl test lowest check soak bench docs site lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

crawl: $(VENV)/.runtime ## crawl the demo site, or the site given with URL=
ifdef URL
	$(BIN)/skitter crawl $(URL) --max-pages $(PAGES) -O 'build/{job}.jsonl'
else
	$(BIN)/python -m skitter.testing.demo
endif

test: $(VENV)/.dev ## run the tests (ARGS= for pytest, JOBS= for the number of processes)
	@scripts/services --install
	$(BIN)/python scripts/run_tests.py -n $(JOBS) $(ARGS)

# The lower bounds of pyproject.toml, which the locked versions do not prove, in an environment of their own: the
# parts of the tests that every dependency takes part in, without servers.
LOWEST := build/lowest

lowest: $(VENV)/.dev ## run tests with the oldest versions that pyproject.toml allows (ARGS= for pytest)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --all-extras --python $(LOWEST)/bin/python \
		--no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python \
		-r $(LOWEST)/requirements.txt --group dev -c $(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation -e .
	$(LOWEST)/bin/python -m pytest -n $(JOBS) $(ARGS) tests/unit tests/contract/test_memory.py \
		tests/contract/test_sqlite.py tests/integration/fetch tests/acceptance/test_crawl.py

check: $(VENV)/.dev ## lint, format, types, import directions, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/gen_reference.py --check
	$(BIN)/python scripts/check_docs.py
	@$(MAKE) --no-print-directory site

# The status of pytest is kept in a file, because a pipe has only the status of tee.
soak: $(VENV)/.dev ## run the long suites in full; the reports go to build/ and build/fault-report/
	@mkdir -p build
	@rm -rf build/fault-report
	@{ $(BIN)/python -m pytest -m "soak or not soak" --hypothesis-profile=soak --timeout=7200 --durations=25 \
		--junitxml=build/soak-report.xml $(ARGS); echo $$? > build/soak-status; \
		cat build/fault-report/*-soak.txt; } 2>&1 | tee build/soak-report.txt
	@exit $$(cat build/soak-status)

# Those with a section in docs/benchmarks.md. On two cores about an hour in all, a third of it for ladder, a quarter of an
# hour for site and ten minutes each for million and broad. The other benches only print: make bench BENCH="frontier traps". With BENCH=site
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
