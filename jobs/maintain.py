"""Compact the tables of a feed, and drop what nobody can ask for any more."""

from runpy import run_module

run_module("changeledger.jobs.maintain", run_name="__main__")
