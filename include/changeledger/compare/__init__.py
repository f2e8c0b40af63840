"""Compares two feeds of one database change by change: plain functions on Arrow tables, without Spark.

Every change becomes one or two effects on keys (`effects`). Where both feeds have the same single effect on a
key at a place, nothing more is read (`buckets.prefiltered`). The remaining effects are matched by place, key,
and number at the place (`matching`), and judged (`judging`). Effects without a match are matched again by
content (`rematch`).

Rows are narrow: each image is one 64-bit hash per column, NULL if the feed does not know the cell.
"""
