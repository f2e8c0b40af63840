"""Decoding without Spark: plain functions on Arrow batches.

A kernel takes a batch of raw records and a plan that can be pickled, and gives one row per record. Spark
carries kernels over partitions by `mapInArrow`; the `decode` command and the tests call them directly.
What the dialects share stands here, each dialect in a folder of its own.
"""
