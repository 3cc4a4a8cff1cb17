# Everything a user or developer runs. Needs Python 3.11 or newer and make; `make lock` says what else it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
OUT    ?= runs/demo
# `make bench TORCH_PYTHON=path/to/python` compares with the PyTorch of another environment.
TORCH_PYTHON ?= $(BIN)/python

# Compiled programs are kept between test runs. Nothing else reads this folder; `make clean` removes it.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.1

.PHONY: help install demo docs test test-slow test-all unlocked extra bench reproduce reproduce-gpu lint typecheck notebooks lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv $(VENV)

# The demo installs the smaller lock only; its versions are those of the whole lock, so one environment serves both.
$(VENV)/.demo-ready: requirements-demo.lock pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --require-hashes -r requirements-demo.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.ready: requirements.lock pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@ $(VENV)/.demo-ready

install: $(VENV)/.ready  ## create .venv with everything the lock file pins

demo: $(VENV)/.demo-ready  ## train and prune a small net on the digits: figures and a table of metrics
	$(BIN)/bayesprune run --dataset digits --net mlp --method bmr --steps 10000 --out $(OUT)
	@echo "Metrics: $(OUT)/metrics.json"
	@for figure in $(OUT)/*.png; do echo "Figure:  $$figure"; done

# A process a core: threads of NumPy's beside them would only wait for one another. Tests of a file share what they compile, so
# they stay together, or nearly so among the slow ones, of which a few files take minutes. What a test compiles runs briefly:
# most of XLA's optimisation would cost more than it saves, and so would its fusion emitters; slow tests take .4 of the time.
test test-slow test-all: export OPENBLAS_NUM_THREADS ?= 1
test test-slow test-all: export JAX_DISABLE_MOST_OPTIMIZATIONS ?= 1
# XLA ends the process at a flag that it does not know: the one against fusion emitters is jaxlib's before 0.11.
OLD_XLA = $(shell $(BIN)/python -c "import jaxlib.version as v; print(int(v.__version_info__ < (0, 11)))" 2>/dev/null)
test test-slow test-all: export XLA_FLAGS ?= $(if $(filter 1,$(OLD_XLA)),--xla_cpu_use_fusion_emitters=false) \
	--xla_cpu_parallel_codegen_split_count=1
EVERY_TYPE = --jaxtyping-packages=bayesprune,beartype.beartype
test: $(VENV)/.ready  ## the fast tests and doctests
	$(BIN)/python -m pytest -q -n auto --dist loadfile

# Checking every type takes a fifth of the time: here it is for the main roads, before a release for all.
test-slow: $(VENV)/.ready  ## the tests that take minutes
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "slow and not every"
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "slow and not every" $(EVERY_TYPE) tests/test_modes.py

test-all: $(VENV)/.ready  ## these with every case of every test: before a release
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m slow $(EVERY_TYPE)

unlocked:  ## the fast tests under versions outside the lock: make unlocked WITH="jax==0.10.0 jaxlib==0.10.0"
	$(PYTHON) -m venv .venv-unlocked
	.venv-unlocked/bin/python -m pip --disable-pip-version-check install --quiet -e ".[all,test]" $(WITH)
	@touch .venv-unlocked/.ready
	$(MAKE) test VENV=.venv-unlocked

extra:  ## everything public in an environment with one extra, or none: make extra EXTRA=plots
	$(PYTHON) -m venv --clear .venv-extra
	.venv-extra/bin/python -m pip --disable-pip-version-check install --quiet -e ".$(if $(EXTRA),[$(EXTRA)])"
	.venv-extra/bin/python -P tests/extras.py

bench: $(VENV)/.ready  ## step times against plain JAX, NumPyro and, where TORCH_PYTHON has it, PyTorch
	$(BIN)/python benchmarks/speed.py --torch-python $(TORCH_PYTHON)

reproduce: $(VENV)/.ready  ## the BMR paper's comparison on Fashion-MNIST: takes hours, goes on where it was stopped
	$(BIN)/python benchmarks/reproduce_bmr.py run

reproduce-gpu: $(VENV)/.ready  ## what the papers claim of larger nets, for one accelerator: goes on where it was stopped
	$(BIN)/python benchmarks/reproduce_gpu.py

lint: $(VENV)/.ready  ## style, by ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.ready  ## types, by mypy
	$(BIN)/mypy src

docs: $(VENV)/.ready  ## the site, in build/site: pages, notebooks as committed, the reference; warnings are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs/site -b html . build/site
	@echo "Site: build/site/docs/site/index.html"

notebooks: $(VENV)/.ready  ## run every notebook anew, in place
	@for book in notebooks/*.ipynb; do \
	  $(BIN)/python -m nbconvert --to notebook --execute --inplace "$$book" || exit 1; \
	done

# Names, versions and hashes only: no address of an index gets in. Needs uv on the path (pip install uv).
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
          --no-emit-index-url --no-emit-find-links --group build pyproject.toml
lock:  ## pin the dependencies anew (UPGRADE=--upgrade for the newest)
	$(COMPILE) $(UPGRADE) --extra all --extra docs --extra test -o requirements.lock
	$(COMPILE) --constraints requirements.lock --extra cli -o requirements-demo.lock

clean:  ## remove environments, caches and build products; runs/ stays
	rm -rf $(VENV) .venv-ci .venv-unlocked .venv-extra .cache build dist .pytest_cache .mypy_cache .ruff_cache src/*.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
