"""Change event streaming of SQL Server 2025 (CES): CloudEvents in JSON or Avro, all tables in one topic.

Key differences from the other dialects:

* Each message names its table and that table's columns.
* The position is the commit LSN and a number inside the transaction; there is no change LSN, no mask.
* Every value is text. By the settings of the stream group, a message may lack unchanged columns, old values,
  and old large values.
* An event too large for one message comes in several. It waits until all have arrived (`split`).

`typed` decodes messages in the producer's usual form by types; `single` reads any other message by itself.
Both return the same `events.Event`, which `decode` turns into a canonical change.

Source: the page on the JSON message format, and the wire notes on the three generations of the envelope.
"""
