# Everything runs with the Python of the active environment; `make check PYTHON=/path/to/python` for another.
PYTHON ?= python

.PHONY: help check lint layout types contracts budgets prose unused fresh format generate test everything compiled core accept wheel

help:
	@echo "make check       linter, formatter, type checker, import contracts, budgets, prose, unused names"
	@echo "make test        all tests, of generated families the members whose turn it is"
	@echo "make everything  all tests with all members of generated families: hours"
	@echo "make compiled    all tests, the body of each compiled in parts"
	@echo "make core        every operator once, every error, the short demo"
	@echo "make format      format and sort imports"
	@echo "make generate    write the generated modules and pages"
	@echo "make accept      rewrite golden texts with what is printed now"
	@echo "make wheel       build the wheel into dist/"

# `make -k check` goes on after a failure and shows all of them.
check: lint layout types contracts budgets prose unused fresh

lint:
	$(PYTHON) -m ruff check .

layout:
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m basedpyright --pythonpath "$$($(PYTHON) -c 'import sys; print(sys.executable)')"

contracts:
	$(PYTHON) -c "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True, no_cache=True))"

budgets:
	$(PYTHON) -m tools.budgets

prose:
	$(PYTHON) -m tools.prose

unused:
	$(PYTHON) -m tools.unused

fresh:
	$(PYTHON) -m tools.generate --check

format:
	$(PYTHON) -m ruff check --select I --fix .
	$(PYTHON) -m ruff format .

generate:
	$(PYTHON) -m tools.generate
	$(PYTHON) -m ruff format --quiet src

test:
	$(PYTHON) -m pytest

everything:
	$(PYTHON) -m pytest --full

compiled:
	RUSHLIGHT_COMPILE_TESTS=1 $(PYTHON) -m pytest

core:
	$(PYTHON) -m pytest -m core $(shell grep -rl 'mark\.core\b' tests --include='test_*.py')

accept:
	$(PYTHON) -m pytest --accept

wheel:
	$(PYTHON) -m pip wheel --no-deps --wheel-dir dist .
