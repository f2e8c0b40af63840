"""Decodes Debezium's change events: JSON, bare or wrapped in `{schema, payload}`, or Avro.

Key differences from the other dialects:

* One message carries both images. There is no change mask, so an update changed the columns in which its
  images differ.
* (commit_lsn, change_lsn, event_serial_no) orders changes but does not identify one: both halves of a key
  update can share all three.
* A snapshot row has the snapshot's position; a row of an incremental snapshot has the stream's. Neither is
  newer than a change after it.
* Debezium's connectors for other databases use the same envelope. PostgreSQL's `lsn`, a 64-bit position,
  stands in for both LSNs, left-padded to 10 bytes.

Messages are grouped by what their schema blocks say about the columns (`blocks`, `fields`), because the block
determines how values are written. A group is first decoded with typed structs (`typed`, `structs`). A record
that these do not accept is read on its own (`single`). Both paths produce the same columns (`events`), from
which `decode` builds the canonical changes.

Source: the connector's chapter on change event values, and the wire notes on versions 0.x to 3.x.
"""
