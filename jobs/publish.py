"""Make the window's tables visible: all of them, or none."""

from runpy import run_module

run_module("changeledger.jobs.publish", run_name="__main__")
