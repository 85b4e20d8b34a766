# The two commands of the README are `make demo` and `make test`. Each sets up everything it needs in .venv.
PYTHON ?= python3
VENV := .venv
SERVERS := .venv-servers
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check counts bench torture docs clean links
.DEFAULT_GOAL := test

demo: $(READY)
	@$(BIN)/foregate demo

# More tests at once than cores, for many wait for processes they started: with three on two cores a third of both was
# idle. Six at most, for each worker loads all tests and keeps what they read.
test: $(READY)
	@$(BIN)/python -Im pytest --import-mode=importlib --numprocesses $$($(BIN)/python -c "import os; print(min(6, 2 * (os.cpu_count() or 1) + 1))") --dist worksteal

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy tests/typing/api.py

# Counts the calls of a turn and of what people wait for anew, for this Python; `make test` compares with them.
counts: $(READY)
	@$(BIN)/python -s -E -m tests.counts.kept_counts

# BEFORE names the revision whose results stand beside the new ones, NAMES some benchmarks instead of all.
BEFORE ?= HEAD

bench: $(READY) $(SERVERS)/.tried
	@$(BIN)/python -s -E benchmarks/run.py --before $(BEFORE) --servers $(SERVERS)/bin/python $(NAMES)

# LiteLLM and llama.cpp, which the benchmark of endpoints runs for real; without them it says that they are left out.
$(SERVERS)/.tried: benchmarks/serving/requirements.txt
	@echo "Setting up LiteLLM and llama.cpp for the benchmarks in $(SERVERS) (once) ..."
	@$(PYTHON) -m venv $(SERVERS)
	@$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< || echo "They cannot be installed here."
	@touch $@

# Long: kills, power cuts, races. MINUTES says how long.
MINUTES ?= 10

torture: $(READY)
	@$(BIN)/python -s -E benchmarks/torture.py --minutes $(MINUTES)

# Not among them: docs/make_chat.py, which needs tmux.
docs: $(READY)
	@for name in architecture command_line dialects events figures gates picture policy python servers; do $(BIN)/python -I docs/make_$$name.py || exit 1; done

links:
	@test -L src/foregate/agent || { echo "src/foregate/agent is not a symbolic link: this checkout turned links into text files; clone again with 'git -c core.symlinks=true clone'."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Foregate needs Python 3.11 or later; run make with PYTHON=/path/to/python3.11."; exit 1; }

# What was installed is compiled on every core, which pip would do on one; some packages hold files that are no Python.
$(READY): pyproject.toml constraints.txt | links
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python has no venv module; on Debian: apt-get install python3-venv."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $(READY)

clean:
	rm -rf $(VENV) $(SERVERS) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
