"""Check the window's branch against the rules of the audit."""

from runpy import run_module

run_module("changeledger.jobs.audit", run_name="__main__")
