"""Compare what the feeds of one database have published with their source, and write the page."""

from runpy import run_module

run_module("changeledger.jobs.verify", run_name="__main__")
