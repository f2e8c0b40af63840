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
    return f"struct<{_ENVELOPE},message:struct<{body}>,{body}>"


_LABELLED = _message(f"{_ADDRESS},headers:struct<operation:string,externalSchemaId:string>")
_WHOLE = _message(",".join(f"`{name}`:{kind}" for name, kind in _BODY.items()))
_IS_METADATA = "metadata"


def label(value: Column) -> Column:
    """struct<kind, schema, table, schema_id> of a message: `kind` is `metadata` or NULL.

    The message is parsed once, whatever is asked of it, also where Spark moves the label into a filter:
    a lambda's variable is the only thing that it does not copy.
    """

    def told(message: Column) -> Column:
        return F.struct(
            F.when(_is_metadata(message), F.lit(_IS_METADATA)).alias("kind"),
            _member(message, "schema").alias("schema"),
            _member(message, "table").alias("table"),
            _schema_id(message).alias("schema_id"),
        )

    told_labels = F.transform(base.read_json(value.cast("string"), _LABELLED), told)
    empty = F.struct(*(F.lit(None).cast("string").alias(n) for n in ("kind", "schema", "table", "schema_id")))
    return F.coalesce(F.get(told_labels, F.lit(0)), empty)


def is_metadata(label: Column) -> Column:
    return F.coalesce(label["kind"] == _IS_METADATA, F.lit(False))


def _member(message: Column, name: str) -> Column:
    """A member of what is inside the envelope, or of the bare message."""
    inner = message["message"]
    return F.when(inner.isNotNull(), inner[name]).otherwise(message[name])


def _schema_id(message: Column) -> Column:
    return F.coalesce(_member(message, "headers")["externalSchemaId"], message["messageSchemaId"])


def _is_metadata(message: Column) -> Column:
    """The envelope's type decides; without one, what the message holds."""
    kind = F.upper(message["type"])
    operation = _member(message, "headers")["operation"]
    by_content = _member(message, "tableStructure").isNotNull() & operation.isNull()
    return F.when(kind.isNotNull(), kind.isin(*METADATA)).otherwise(by_content)


def text_of(raw: DataFrame) -> Column:
    """The message as JSON, in bytes."""
    return F.col(JSON) if JSON in raw.columns else F.col("value")


def parsed(raw: DataFrame) -> DataFrame:
    """`raw` with the message taken apart: `told_<member>` holds what is inside the envelope.

    `malformed` is the number of what is wrong with its form (`problems_of_form`).
    """
    message = _message_alone()
    return (
        raw.withColumn("messages", base.read_json(text_of(raw).cast("string"), _WHOLE))
        .withColumns(
            {
                **{f"told_{name}": _member(message, name) for name in _BODY},
                "schema_id": _schema_id(message),
                "magic": message["magic"],
                "type": message["type"],
                "malformed": problems_of_form(JSON in raw.columns).first(),
                "is_tombstone": F.col("value").isNull(),
                "raw_key": F.col("key"),
            }
        )
        .drop("messages")
    )


def _message_alone() -> Column:
    """The message, where the text holds one and no more."""
    return F.when(F.size("messages") == 1, F.get("messages", F.lit(0)))


def problems_of_form(with_avro: bool) -> base.Problems:
    """What keeps a message from being read at all; of `parsed` ones, `malformed` has found it."""
    message, text = _message_alone(), F.col(JSON if with_avro else "value").cast("string")
    form, corrupt = base.json_form(text), message.isNull()
    magic, kind = message["magic"], message["type"]
    is_enveloped = magic.isNotNull() | message["message"].isNotNull()
    is_data = ~F.coalesce(_is_metadata(message), F.lit(False))
    operation = _member(message, "headers")["operation"]
    found = base.Problems()
    if with_avro:
        for reason in ("unknown_schema", "unusable_schema", "malformed_avro"):
            found.add(F.col(FAULT) == reason, reason, F.coalesce(FAULT_DETAIL, base.beginning()))
    found.add(~form.begins, "not_json", F.concat(F.lit("begins with 0x"), F.hex(F.substring("value", 1, 8))))
    found.add(~F.is_valid_utf8(text), "not_utf8", "the message is not UTF-8")
    found.add((corrupt & form.is_broken) | ~form.ends, "unparseable_json", text)
    found.add(corrupt, "malformed_envelope", text)
    base.add_lone_surrogate(found, text)
    found.add(is_enveloped & (magic != MAGIC), "wrong_magic", F.concat(F.lit("magic is "), F.col("magic")))
    found.add(
        is_enveloped & ~F.upper(kind).isin(DATA, *METADATA),
        "unknown_type",
        F.concat(F.lit("type is "), F.col("type")),
    )
    found.add(magic.isNotNull() & message["message"].isNull(), "no_message", "an envelope without `message`")
    found.add(is_data & operation.isNull(), "no_operation", "the message has no `headers.operation`")
    return found
