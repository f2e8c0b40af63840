"""Qlik change tables, `<table>__ct`: Qlik's header columns, then the source's columns.

Key differences from the other dialects:

* Header columns are found by prefix and name; a task may store any subset of them.
* An update is two rows, B and U, that share transaction and change_seq. A key update is one such pair.
* A mask counts all columns of the table: the header's come first, and their bits are 0.
* A DELETE has its key; whether its other NULLs are real is unknown. The same holds for the NULL of a large
  column before an update, and after it if the mask does not set its bit.
* TRUNCATE is a row of its own. The word in `operation` says so, with or without the letter T.
* Order is change_seq: monotone for all tables of a task, whatever the clocks do. stream_position has the
  commit LSN if the source is SQL Server, but rows may lack it: it gives no reliable order.

Source: the page on change tables. Where it contradicts its own rules (mask 11000, a BEFORE-IMAGE numbered
1000 before an UPDATE numbered 1001), the rules hold.
"""
