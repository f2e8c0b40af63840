"""From a window's ledger rows to what is appended and merged: plain functions on Arrow tables.

`resolve` works on rows that share a position: duplicates, and the two halves of an update of a key. `history`
works on all that is known of some keys: intervals, the image chain, current rows. Both work on a part of the
rows, so that Spark can carry them over buckets; each says what must be in one bucket.
"""
