"""Debezium's change events: JSON, bare or wrapped in `{schema, payload}`, or Avro.

Key differences from the other dialects:

* One message has both images; there is no mask, so what an update changed is the images' difference.
* (commit_lsn, change_lsn, event_serial_no) orders changes, but does not identify one: both halves of a
  key update can share all three.
* A snapshot row stands at the snapshot's position, one of an incremental snapshot at the stream's: it is
  never newer than a change after it.
* Other connectors of the family use the same envelope: PostgreSQL's `lsn`, a 64-bit position, stands in
  for both LSNs, left-padded to 10 bytes.

Messages are grouped by what their schema blocks say of the columns (`blocks`, `fields`): the block decides
how a value is written. A group is decoded by types first (`typed`, by what `structs` takes for usual);
a record that is not as usual is read by itself (`single`). Both give the same columns (`events`), of which
`decode` makes the canonical changes.

Source: the connector's chapter on change event values, and the wire notes on versions 0.x to 3.x.
"""
