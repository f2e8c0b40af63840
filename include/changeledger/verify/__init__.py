"""Checks whether published data matches the source: rows of the source against versions of history.

It runs without Spark. The source is read without a lock while it keeps changing, so what was read of a key is
its state at some moment between two, the fence. A row is right if it equals any version of its key that was
alive at some moment of the fence. A missing row is right if the key did not exist at some moment of the
fence.

Keys that nobody touched since the fence began have one version there, the current row. For those, hashes of
many rows at once are enough (`sums`). Single rows are compared only where these differ (`judging`).
"""
