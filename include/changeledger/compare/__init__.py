"""Two feeds of one database, change by change, without Spark: plain functions on Arrow tables.

Every change becomes one or two effects on keys (`effects`). Where both feeds have the same single effect on a
key at a place, nothing more is read (`prefilter`). What is left is matched by place, key, and number
there (`matching`), and judged (`judging`). What does not meet its like is matched again by what it says
(`rematch`).

What travels is narrow: of each image one 64-bit hash per column, NULL if the feed does not know the cell.
"""
