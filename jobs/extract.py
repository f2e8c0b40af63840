"""Read the window's records from the source into the raw tables."""

from runpy import run_module

run_module("changeledger.jobs.extract", run_name="__main__")
