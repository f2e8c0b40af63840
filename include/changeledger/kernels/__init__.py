"""Functions on Arrow batches, without Spark, that dialects and stages share.

A decoding kernel takes a batch of raw records and a picklable plan, and returns one row per record. Spark
runs kernels over partitions with `mapInArrow`; the `decode` command and the tests call them directly. The
kernels of a single dialect are in its folder under `dialects/`.
"""
