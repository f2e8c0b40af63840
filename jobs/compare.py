"""Compare the feeds of one database, change by change, and write the report."""

from runpy import run_module

run_module("changeledger.jobs.compare", run_name="__main__")
