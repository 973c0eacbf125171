# `make demo`, `make check`, `make test` and `make docs` set up what they need in .venv and run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What `make check` tests; TESTS="tests/norms implicit_bias/norms" takes others.
TESTS ?= tests/test_architecture.py tests/test_laws.py tests/test_metrics.py $(addprefix tests/,certificate cli/test_help.py features \
	gates networks norms solvers/test_solvers.py)
# Two processes share the machine's cores, and keep the modules that they compile.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not long" -n 2 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test lint docs matrix release-check setup clean

demo: setup
	$(BIN)/python scripts/compare_gln.py

check: lint
	$(PYTEST) -q $(TESTS)

test: lint
	$(PYTEST) --durations=10

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# A line for each environment; finished ones of this commit are not run again. See noxfile.py.
matrix: setup
	-$(BIN)/nox --no-stop-on-first-error
	$(BIN)/python noxfile.py

release-check: setup
	.ci/release

setup: $(READY)

$(READY): setup.cfg pyproject.toml requirements-light.txt requirements-torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV): this downloads a few gigabytes the first time (torch)."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,docs]'
	touch $(READY)

clean:
	rm -rf $(VENV) .nox .matrix build dist results docs/_build docs/api docs/auto_gallery *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
