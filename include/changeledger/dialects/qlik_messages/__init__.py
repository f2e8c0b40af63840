"""Qlik Replicate's change messages on Kafka, JSON or Avro, with or without its envelope.

Key differences from the other dialects:

* The columns come in metadata messages, once for each version of a table. Data names its version by a
  schema id, or not at all: then its own columns identify the version (`versions`).
* Two masks in hex text say what changed, and which columns are in the message. A column that is not in the
  message is written as JSON null, which does not mean NULL. Large objects are never in the mask of changes.
* A delete has only the key: the other members are filler.
* A key update is one UPDATE whose `beforeData` has the old key.
* Rows of the full load (REFRESH) have neither order nor time.
* The stream position is the source's own; SQL Server's begins with the commit LSN.

`typed` decodes messages in a task's usual form by types; `single` reads any other message by itself. Both
return the same `events.Event`, which `decode` turns into a canonical change.

Source: the page on metadata and data messages, and the wire notes.
"""
