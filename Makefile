# Everything runs in .venv, which each target makes and fills by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo run test lint bench dashboards clean

demo: $(READY)  ## A recorded incident, played to the real daemon
	$(BIN)/monitor demo

run: $(READY)  ## The daemon with monitor.yaml of this folder
	$(BIN)/monitor run

test: $(READY)  ## All tests
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

lint: $(READY)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## What a scrape costs, and how wide the speedup's interval is
	$(BIN)/python -m benchmarks.scrape
	$(BIN)/python -m benchmarks.speedup

dashboards: $(READY)  ## The Grafana dashboards, written again from their code
	$(BIN)/python -m monitor.grafana.build

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
