# The commands of a working day; CONTRIBUTING.md says when to use which. `.ci/run` is what has to pass in the end.
.PHONY: help fmt check fast test texts full docs
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python
DATABASE ?= sqlite
ARGS ?=

help:  ## these lines
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

.venv/installed: requirements.txt $(wildcard requirements/*.txt)
	python3 -m venv .venv
	.venv/bin/pip install -q -r requirements.txt
	@touch $@

fmt: .venv/installed  ## format the code, mend what the linter can mend
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

check: .venv/installed  ## lint, format, types, import contracts, migrations
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PYTHON) manage.py makemigrations --check --dry-run

fast: .venv/installed  ## the tests that start no process: DATABASE=sqlite|postgresql, ARGS="tests/flow -k claim"
	DURABLE_TEST_DATABASE=$(DATABASE) $(PYTHON) -m pytest -n auto -m "not slow" $(ARGS)

test: .venv/installed  ## the whole suite on both databases: ARGS="-k claim"
	$(PYTHON) -m tests $(ARGS)

texts: .venv/installed  ## the catalogues: new texts in, old ones out, compiled; says what is not translated
	$(PYTHON) -m tests.languages

full:  ## the slow tests at their full size, for hours; build/full.txt tells of each
	.ci/full

docs: .venv/installed  ## the documentation as a site, in build/site, and its checks: links, examples, names of settings and log events
	.venv/bin/pip install -q --require-hashes -r requirements/docs.txt
	.venv/bin/sphinx-build -q -W --keep-going docs build/site
	DURABLE_TEST_DATABASE=$(DATABASE) $(PYTHON) -m pytest -n auto tests/house tests/architecture tests/site $(ARGS)
