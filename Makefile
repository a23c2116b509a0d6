# On a fresh machine `make demo` and `make test` do everything: they set up .venv first.
PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed

.PHONY: demo test laws check generate bench clean
.DEFAULT_GOAL := test

# Made anew whenever what it should hold changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	$(BIN)/python -m compileall -q mono_gen
	$(BIN)/python -c 'from mono_gen.emit.environment import warm; warm()'
	@touch $@

# A full-size decoder layer through the generated loader.
demo: generate
	$(BIN)/python -m tools.demo

generate: $(STAMP)
	$(BIN)/mono-gen generate specs --out generated

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The laws on twenty times as many random examples, new ones each time.
laws: $(STAMP)
	LAWS=20 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/laws tests/compare/test_moves.py

# What CI runs: format, lint, types, freshness, tests.
check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mono-gen check specs --out generated
	$(BIN)/mono-gen fmt --check specs mono_gen/library
	$(MAKE) --no-print-directory test

# Ratios, side by side; never a test. On a machine with a GPU, those of the GPU too.
bench: $(STAMP)
	$(BIN)/python -m tools.bench

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find mono_gen generated tests tools -name __pycache__ -prune -exec rm -rf {} +
