.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint audit sbom up bench faults reliability clean setup-lint setup-demo setup-run setup-bench setup-test lock-jars
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# Where the demo's lake is, and the jars for it.
LAKE ?= disk
DEMO_JARS_disk := spark kafka
DEMO_JARS_s3 := spark spark-s3 s3 rest kafka
DEMO_JARS = $(or $(DEMO_JARS_$(strip $(LAKE))),$(error LAKE is disk or s3, not "$(LAKE)"))

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: setup-demo ## five feeds from real services to published tables, with a report; LAKE=s3: on S3 and a REST catalog
	@$(PYTHON) -m sourcelab.demo --lake $(strip $(LAKE))

test: setup-test ## the tests of every commit, with real services: all but the long ones
	@$(PYTEST) -m "not long"

test-all: setup-test ## all tests: with Airflow in a browser, clusters, and what breaks or restores whole stores
	@$(PYTEST)

lint: setup-lint ## style, format, sizes, types, import contracts, dependencies
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) scripts/sizes.py
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/deptry . --no-ansi

audit: setup-lint ## known holes in Python packages and jars; asks https://api.osv.dev
	@$(PYTHON) scripts/audit.py

sbom: setup-lint ## what the project is made of, as CycloneDX JSON on standard output
	@$(PYTHON) scripts/sbom.py

up: setup-run ## Airflow with its UI, the demo's sources beside it, until Ctrl-C
	@$(PYTHON) -m sourcelab.up

bench: setup-bench ## the table of targets, beside Spark by hand, DuckDB and dlt; MESSAGES and TRIES say how much
	@PYTHONPATH=include $(PYTHON) -m benchmarks.run $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(TRIES),--tries $(TRIES))

faults: setup-test ## break things at every place, for MINUTES or until Ctrl-C; LAKE=s3; SOAK is a seed of fifty windows
	@PYTHONPATH=include $(PYTHON) -m tests.faults.matrix --lake $(strip $(LAKE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SOAK),--soak $(SOAK))

reliability: setup-test ## docs/reliability.md from what `make faults` has found
	@PYTHONPATH=include $(PYTHON) -m tests.faults.matrix --page

clean: ## remove .venv, .jars and all caches; the data in .changeledger stays
	rm -rf .venv .jars .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-lint:
	@scripts/bootstrap

setup-demo:
	@scripts/bootstrap $(DEMO_JARS)

setup-run:
	@scripts/bootstrap spark kafka

setup-bench:
	@scripts/bootstrap spark kafka bench

setup-test:
	@scripts/bootstrap spark spark-s3 s3 rest kafka debezium yarn

# After a deliberate change of include/changeledger/jars/ivy.xml: write jars.sha256 beside it again, to be read in the diff.
lock-jars:
	@scripts/bootstrap --lock-jars spark
