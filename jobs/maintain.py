"""Compact the tables of a feed, and remove what is no longer needed."""

from runpy import run_module

run_module("changeledger.jobs.maintain", run_name="__main__")
