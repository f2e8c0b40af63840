"""CES events in Avro: the envelope, and inside it the event, each without a frame by a schema of the page.

The page's schema of the event exists with and without `finalevent`, which stands between `sequencenumber` and
`committime`. Avro writes no names, and nothing in a message says which schema it has: both are tried, and the
one that uses up all bytes holds. The event becomes the JSON text that the other format has in its place.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from changeledger.dialects.avro import RAW, TEXT, Schema, Wanted

_TEXTS = (
    "specversion", "type", "source", "id", "logicalid", "time", "datacontenttype", "operation",
)  # fmt: skip
_ENVELOPE: Wanted = {**dict.fromkeys((*_TEXTS, "segmentindex", "finalsegment"), TEXT), "data": RAW}
# No JSON begins with a byte below that of its white space; an Avro envelope with the length of a short text.
_BELOW_JSON = b"\x09"
_NAME = r"^[^\p{Cntrl}]{1,128}\z"


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def _array(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _event(**final: str) -> Schema:
    transaction = _record(
        "Transaction",
        commitlsn="string",
        beginlsn="string",
        sequencenumber="int",
        **final,
        committime="string",
    )
    source = _record(
        "EventSource",
        **_TABLE,
        cols=_array(_record("Column", name="string", type="string", index="int")),
        pkkey=_array(_record("PkKey", columnname="string", value="string")),
        transaction=transaction,
    )
    row = _record("EventRow", old="string", current="string")
    return Schema(json.dumps(_record("Data", eventsource=source, eventrow=row)))


_TABLE = {"db": "string", "schema": "string", "tbl": "string"}
_SEGMENT = {"segmentindex": "int", "finalsegment": "boolean", "data": "bytes"}
_ENVELOPES = Schema(json.dumps(_record("ChangeEvent", **dict.fromkeys(_TEXTS, "string"), **_SEGMENT)))
_EVENTS = (_event(finalevent="boolean"), _event())
_BEGINNING = json.dumps(_record("Beginning", **_TABLE))


def is_avro() -> Column:
    return F.coalesce((F.col("value") < F.lit(_BELOW_JSON)) & (F.length("value") > 0), F.lit(False))


def is_there(raw: DataFrame) -> bool:
    """Is any of the messages in Avro? The lake's own statistics of `value` answer for whole files."""
    return not raw.where(F.col("value") < F.lit(_BELOW_JSON)).isEmpty()


def with_envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the members of Avro envelopes in `envelope`, where JSON's are for the others.

    An event in one message is JSON text in `data`; of a segment `data` holds the bytes as they are.
    """
    value = F.when(is_avro(), F.col("value"))
    read = messages.withColumn("avro_marked", _ENVELOPES.read(value))
    read = read.withColumn("avro_body", _ENVELOPES.body(F.col("avro_marked"), value))
    read = read.withColumn("avro", F.expr(_ENVELOPES.struct("avro_body", _ENVELOPE)))
    read = with_json(read.withColumn("avro_data", F.col("avro")["data"]), "avro_data")
    told = {name: F.col("avro")[name] for name in _ENVELOPE} | {"data": F.col("avro_data")}
    members = F.create_map(*(part for name, text in told.items() for part in (F.lit(name), text)))
    return read.withColumn(
        "envelope", F.when(F.col("avro").isNotNull(), members).otherwise(F.col("envelope"))
    ).drop("avro_marked", "avro_body", "avro", "avro_data")


def with_json(frame: DataFrame, text: str) -> DataFrame:
    """`frame` with a whole event in Avro, whose bytes are the text in a column, as JSON text in it."""
    columns = [name for name in frame.columns if name != text]
    bytes_of = F.when(~F.col(text).startswith("{"), F.col(text).cast("binary"))
    read = frame.withColumn("event_bytes", bytes_of)
    found = []
    for at, schema in enumerate(_EVENTS):
        marked, body = f"event_marked_{at}", f"event_body_{at}"
        read = read.withColumn(marked, schema.read(F.col("event_bytes")))
        read = read.withColumn(body, schema.body(F.col(marked), F.col("event_bytes")))
        images = f"({schema.struct(body, {'eventrow': {'old': TEXT, 'current': TEXT}})}).eventrow"
        valid = f"is_valid_utf8({images}.old) AND is_valid_utf8({images}.current)"
        found.append(F.expr(f"CASE WHEN {valid} THEN {schema.json(body)} END"))
    return read.select(*columns, F.coalesce(*found, F.col(text)).alias(text))


def begins(text: Column) -> Column:
    """Is it likely that an event begins with these bytes? It does with the names of database and table."""
    told = from_avro(text.cast("binary"), _BEGINNING, {"mode": "PERMISSIVE"})
    return F.coalesce(F.forall(F.array(*(told[n] for n in _TABLE)), _is_name), F.lit(False))


def _is_name(text: Column) -> Column:
    return F.is_valid_utf8(text) & text.rlike(_NAME)
