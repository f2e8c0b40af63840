"""Qlik Replicate's change messages on Kafka, JSON or Avro, with or without its envelope.

Key differences from the other dialects:

* The columns come in metadata messages, once for each version of a table; data names its version by a
  schema id, or not at all: then its own columns tell it (`versions`).
* Two masks as hex text: what changed, and which columns are in the message. A member that is not in the
  message is there as JSON null, which is no NULL. Large objects are never in the mask of changes.
* A delete has the key alone: what the other members hold is filler.
* A key update is one UPDATE whose `beforeData` has the old key.
* Rows of the full load (REFRESH) have neither order nor time.
* The stream position is the source's own; SQL Server's begins with the commit LSN.

A batch is decoded by types first (`typed`); a message that is not as usual is read by itself (`single`).
Both give the same `events.Event`, of which `decode` makes the canonical changes.

Source: the page on metadata and data messages, and the wire notes.
"""
