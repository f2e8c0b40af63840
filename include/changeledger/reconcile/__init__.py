"""Turns a window's ledger rows into the rows to append and to merge: plain functions on Arrow tables.

`resolve` works on rows that share a position: duplicates, and the two halves of an update of a key. `history`
works on everything known of some keys: intervals, the image chain, current rows. Both work on a part of the
rows, so that Spark can run them bucket by bucket; each says which rows must share a bucket.
"""
