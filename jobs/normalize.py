"""Turn the window's raw records into canonical changes and dispositions."""

from runpy import run_module

run_module("changeledger.jobs.normalize", run_name="__main__")
