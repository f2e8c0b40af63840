"""Order the window's changes and build current and history rows on its branch."""

from runpy import run_module

run_module("changeledger.jobs.reconcile", run_name="__main__")
