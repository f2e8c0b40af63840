"""Qlik change tables, `<table>__ct`: the source's columns after header columns of Qlik's own.

Key differences from the other dialects:

* The header's columns are bound by prefix and name; a task may store any subset of them.
* An update is two rows, B and U, that share transaction and change_seq. A key update is one such pair.
* A mask counts all columns of the table: the header's come first, and their bits are 0.
* A DELETE holds its key; what else is NULL in it is not known. Nor is a large value that is NULL before an
  update, or after it while the mask does not set its bit.
* TRUNCATE comes as a row of its own, in the word of `operation` alone or with the letter T.
* Order is change_seq: monotone for all tables of a task, whatever the clocks do. stream_position has the
  commit LSN where the source is SQL Server, but not every row needs to have one: no order to rely on.

Source: the page on change tables. Where it contradicts its own rules (mask 11000, a BEFORE-IMAGE numbered
1000 before an UPDATE numbered 1001), the rules hold.
"""
