# `make demo`, `make test` and `make docs` set up what they need in .venv and run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test docs release-check setup clean

demo: setup
	$(BIN)/python scripts/compare_gln.py

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not long" --durations=10 -n 2 --dist worksteal

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

release-check: setup
	.ci/release

setup: $(READY)

$(READY): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV): this downloads a few gigabytes the first time (torch)."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,docs]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist results docs/_build docs/api docs/auto_gallery *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
