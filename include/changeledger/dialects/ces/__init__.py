"""Change event streaming of SQL Server 2025 (CES): CloudEvents in JSON or Avro, all tables in one topic.

Key differences from the other dialects:

* A message says itself of which table it is, and which columns that table has.
* The position is the commit LSN and a number inside the transaction; there is no change LSN, no mask.
* Every value is text. What was not sent is not there: unchanged columns, old values, old large values,
  by the settings of the stream group.
* An event too large for one message comes in several, and waits until all are there (`split`).

A batch is decoded by types first (`typed`); a message that is not as usual is read by itself (`single`).
Both give the same `events.Event`, of which `decode` makes the canonical changes.

Source: the page on the JSON message format, and the wire notes on the three generations of the envelope.
"""
