# Every target works on a fresh clone: it creates .venv and installs what it needs, once.

RUN_EXTRAS := experiments,torch,compiled
TEST_EXTRAS := experiments,torch,jax,keras,ray,parquet,compiled,dev,peers,docs
BENCH_EXTRAS := experiments,torch,jax,compiled,peers
DOCS_EXTRAS := docs,experiments
DIST_EXTRAS := dist
NOTEBOOK_EXTRAS := notebooks,experiments,torch

# A name on PATH may be a shim without an interpreter, so the first one that runs is used.
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && break; done)
endif
ifeq ($(strip $(PYTHON)),)
override PYTHON := python3
endif

# One more than there are cores: some tests wait for a browser, a cluster or a process that is to be killed.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1)))

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.run-installed $(VENV)/.test-installed $(VENV)/.bench-installed $(VENV)/.docs-installed \
	$(VENV)/.dist-installed $(VENV)/.notebooks-installed

# Bytecode is written even where the environment turns that off: every process would compile its imports again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test check lint format bench fuzz stress docs pictures notebooks dist clean
# Two simultaneous installs would break the environment.
.NOTPARALLEL:

help:
	@echo "make run      reproduce the paper in report/index.html (about 6 minutes on 2 cores; resumes after interruptions)"
	@echo "make test     run make check and all tests and doctests"
	@echo "make check    check lint, formatting and types"
	@echo "make format   format the code and apply the linter's fixes"
	@echo "make bench    time everything against its alternatives in results/benchmarks.md (half an hour on 2 cores)"
	@echo "make fuzz     make 100,000 random calls of the public functions and the command line (15 minutes)"
	@echo "make stress   flip 200 random bits of each kind of file, kill sweeps 100 times and drivers of Ray (10 minutes)"
	@echo "make docs     build the documentation site in build/site/"
	@echo "make pictures  draw the pictures of README.md and docs/directions.md again (2 minutes)"
	@echo "make notebooks  run the notebooks in examples/ again (a minute)"
	@echo "make dist     build the wheel and the source distribution in dist/, and check both"
	@echo "make clean    remove .venv, caches and report/"
	@echo "PYTHON=...    interpreter for .venv, 3.11 or newer (now: $(PYTHON))"

run: $(VENV)/.run-installed
	@$(BIN)/gradwalk reproduce all --scale quick --out report

# Types are checked while the tests run, because mypy uses one core and some tests wait.
test: lint
	@echo "$(BIN)/mypy & $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal"
	@$(BIN)/mypy >$(VENV)/mypy.log 2>&1 & mypy=$$!; \
		$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal; pytest=$$?; \
		wait $$mypy; mypy=$$?; \
		sed 's/^/mypy: /' $(VENV)/mypy.log; \
		[ $$mypy = 0 ] && [ $$pytest = 0 ] || { echo "exit status: pytest $$pytest, mypy $$mypy" >&2; exit 1; }

check: lint
	$(BIN)/mypy

lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test-installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench-installed
	$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/.test-installed
	nice $(BIN)/python stress/fuzz.py

stress: $(VENV)/.test-installed
	nice $(BIN)/python stress/flips.py
	nice $(BIN)/python stress/kills.py
	nice $(BIN)/python stress/ray_drivers.py

docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

pictures: $(VENV)/.run-installed
	$(BIN)/python docs/before_after.py
	$(BIN)/python docs/leak_before_after.py

notebooks: $(VENV)/.notebooks-installed
	$(BIN)/python examples/notebooks/run.py

dist: $(VENV)/.dist-installed
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python release/check.py

clean:
	rm -rf $(VENV) report dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.run-installed: EXTRAS = $(RUN_EXTRAS)
$(VENV)/.test-installed: EXTRAS = $(TEST_EXTRAS)
$(VENV)/.bench-installed: EXTRAS = $(BENCH_EXTRAS)
$(VENV)/.docs-installed: EXTRAS = $(DOCS_EXTRAS)
$(VENV)/.dist-installed: EXTRAS = $(DIST_EXTRAS)
$(VENV)/.notebooks-installed: EXTRAS = $(NOTEBOOK_EXTRAS)

# They depend on the Makefile because it lists the extras. What is imported is compiled then; pip would compile five times as
# much, on one core. For the tests one process does it, before several would at the same time.
$(STAMPS): pyproject.toml constraints.txt Makefile | $(VENV)/.created
	@echo "Installing gradwalk[$(EXTRAS)] into $(VENV), once."
	@$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@[ $@ != $(VENV)/.test-installed ] || $(BIN)/python -m pytest -q --collect-only >/dev/null || true
	@touch $@

# A stamp instead of bin/python, because an interrupted venv leaves an interpreter without pip.
$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
		{ echo "gradwalk needs Python 3.11 or newer, and $(PYTHON) was not found; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gradwalk needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
