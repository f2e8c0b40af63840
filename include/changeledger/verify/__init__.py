"""Does the published data match the source? Rows of the source against versions of history, without Spark.

The source is read without a lock while it keeps changing. What was read of a key is its state at some
moment between two, the fence; so a row is right where it equals any version of its key that was alive at
some moment of the fence, and no row is right where the key did not live at some moment of it. Keys that
nobody touched since the fence began have one version there, the current row: for those, hashes of many rows
at once do (`sums`). Only where these differ are single rows looked at (`judging`).
"""
