"""Qlik's messages as JSON: the envelope or its absence, and what is wrong with a text that is neither."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.dialects import base
from changeledger.dialects.qlik_messages_avro import FAULT, FAULT_DETAIL, JSON
from changeledger.dialects.qlik_messages_metadata import MAGIC

DATA = "DT"
# The page says MD, older releases wrote MT.
METADATA = ("MD", "MT")

_HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
# What a label needs; everything is text, so that no number goes through a double.
_ADDRESS = "`schema`:string,`table`:string,tableStructure:string"
_BODY = {
    "schema": "string",
    "table": "string",
    "headers": f"struct<{','.join(f'`{name}`:string' for name in _HEADERS)}>",
    "data": "map<string,string>",
    "beforeData": "map<string,string>",
    "tableStructure": "string",
}
_ENVELOPE = "magic:string,type:string,messageSchemaId:string"


def _message(body: str) -> str:
    """`message` for the form with an envelope, the same members at the top for the bare one."""
    return f"array<struct<{_ENVELOPE},message:struct<{body}>,{body}>>"


_LABELLED = _message(f"{_ADDRESS},headers:struct<operation:string,externalSchemaId:string>")
_WHOLE = _message(",".join(f"`{name}`:{kind}" for name, kind in _BODY.items()))
_IS_METADATA = "metadata"


def label(value: Column) -> Column:
    """struct<kind, schema, table, schema_id> of a message: `kind` is `metadata` or NULL.

    The message is parsed once, whatever is asked of it, also where Spark moves the label into a filter:
    a lambda's variable is the only thing that it does not copy.
    """

    def told(message: Column) -> Column:
        enveloped = message["message"].isNotNull()

        def member(name: str) -> Column:
            return F.when(enveloped, message["message"][name]).otherwise(message[name])

        headers = member("headers")
        schema_id = F.coalesce(headers["externalSchemaId"], message["messageSchemaId"])
        is_metadata = _is_metadata(message, member("tableStructure"), headers["operation"])
        return F.struct(
            F.when(is_metadata, F.lit(_IS_METADATA)).alias("kind"),
            member("schema").alias("schema"),
            member("table").alias("table"),
            schema_id.alias("schema_id"),
        )

    told_labels = F.transform(_read(value.cast("string"), _LABELLED), told)
    empty = F.struct(*(F.lit(None).cast("string").alias(n) for n in ("kind", "schema", "table", "schema_id")))
    return F.coalesce(F.get(told_labels, F.lit(0)), empty)


def _read(text: Column, kind: str) -> Column:
    """In brackets, because of a bare text Spark reads the first object and ignores what follows it."""
    return F.from_json(F.concat(F.lit("["), text, F.lit("]")), kind)


def is_metadata(label: Column) -> Column:
    return F.coalesce(label["kind"] == _IS_METADATA, F.lit(False))


def _is_metadata(message: Column, structure: Column, operation: Column) -> Column:
    """The envelope's type decides; without one, what the message holds."""
    kind = F.upper(message["type"])
    by_content = structure.isNotNull() & operation.isNull()
    return F.when(kind.isNotNull(), kind.isin(*METADATA)).otherwise(by_content)


def text_of(raw: DataFrame) -> Column:
    """The message as JSON, in bytes."""
    return F.col(JSON) if JSON in raw.columns else F.col("value")


def parsed(raw: DataFrame) -> DataFrame:
    """`raw` with the message taken apart: `told_<member>` holds what is inside the envelope."""
    message = F.col("message")
    bare = F.struct(*(message[name].alias(name) for name in _BODY))
    inner = message["message"]
    return (
        raw.withColumn("text", text_of(raw).cast("string"))
        .withColumns({"messages": _read(F.col("text"), _WHOLE), "raw_key": F.col("key")})
        .withColumn("message", F.when(F.size("messages") == 1, F.get("messages", F.lit(0))))
        .withColumns(
            {
                "body": F.when(inner.isNotNull(), inner).otherwise(bare),
                "is_enveloped": message["magic"].isNotNull() | inner.isNotNull(),
            }
        )
        .withColumns({f"told_{name}": F.col("body")[name] for name in _BODY})
        .withColumn(
            "schema_id", F.coalesce(F.col("told_headers")["externalSchemaId"], message["messageSchemaId"])
        )
    )


def problems_of_form(with_avro: bool) -> base.Problems:
    """What keeps a message of `parsed` from being read at all."""
    text, message = F.col("text"), F.col("message")
    corrupt = message.isNull()
    form = base.json_form()
    magic, kind = message["magic"], F.upper(message["type"])
    structure, operation = F.col("told_tableStructure"), F.col("told_headers")["operation"]
    is_data = ~F.coalesce(_is_metadata(message, structure, operation), F.lit(False))
    found = base.Problems()
    if with_avro:
        for reason in ("unknown_schema", "unusable_schema", "malformed_avro"):
            found.add(F.col(FAULT) == reason, reason, F.coalesce(FAULT_DETAIL, base.beginning()))
    found.add(~form.begins, "not_json", F.concat(F.lit("begins with 0x"), F.hex(F.substring("value", 1, 8))))
    found.add(~F.is_valid_utf8(text), "not_utf8", "the message is not UTF-8")
    found.add((corrupt & form.is_broken) | ~form.ends, "unparseable_json", text)
    found.add(corrupt, "malformed_envelope", text)
    found.add(F.col("is_enveloped") & (magic != MAGIC), "wrong_magic", F.concat(F.lit("magic is "), magic))
    found.add(
        F.col("is_enveloped") & ~kind.isin(DATA, *METADATA),
        "unknown_type",
        F.concat(F.lit("type is "), message["type"]),
    )
    found.add(magic.isNotNull() & message["message"].isNull(), "no_message", "an envelope without `message`")
    found.add(is_data & operation.isNull(), "no_operation", "the message has no `headers.operation`")
    return found
