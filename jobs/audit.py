"""Prove the window's branch, rule by rule."""

from runpy import run_module

run_module("changeledger.jobs.audit", run_name="__main__")
