"""CES messages: the CloudEvents envelope and the event inside it.

JSON lies in JSON: `data` is text (or an object), in it `eventrow.old` and `.current` are text (or objects).
Members match whatever their case, so each level is read as a map with lower-case names.

Values are text. Where one is a JSON number, Spark would read a fraction as a double: one that may lose
digits so is put in quotes before its level is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.dialects import base, ces_avro

RAW = ("topic", "partition", "offset", "key", "value", "headers")
ATTRIBUTES = ("type", "source", "logicalid", "time", "operation")
SEGMENT = ("segment", "total", "is_final")
FAULT = ("envelope_reason", "envelope_detail")
# The start of an event's `data`, which no later segment can have: its quotes would be escaped.
_BEGINS = r"(?i)^\s*\{\s*\"event(source|row|data)\""

_MAP = "MAP<STRING,STRING>"
_BLANK = " \t\r\n"
# What Spark takes for JSON beyond its standard.
_STRICT = "map('allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false')"

# A number that a double may not keep: with an exponent, or a fraction and more than 15 digits.
_INEXACT = "-?(?=[0-9]++[.eE])(?=[0-9.]{17}|[0-9.]*+[eE])"
# As the value of a member, at any depth of JSON in JSON; quotes and white space are escaped there.
_MAY_BE_INEXACT = rf'"[\s\\nrt]*+:[\s\\nrt]*+{_INEXACT}'
_NUMBER = rf"{_INEXACT}(?:0|[1-9][0-9]*+)(?:[.][0-9]++)?(?:[eE][+-]?[0-9]++)?(?=\s*+[,}}\]])"
# From the number before, if any: texts and what is between them, and a number that is a value.
_TO_NUMBER = rf'(?s)\G((?:"(?:[^"\\]++|\\.)*+"|[^":]++|:(?!\s*+{_NUMBER}))*+:\s*+)({_NUMBER})'


def with_objects(frame: DataFrame, texts: Mapping[str, str], lower: bool = True) -> DataFrame:
    """Add columns with the members of JSON objects, map<string,string>; NULL where the text is no object.

    Of duplicate members the last one counts. The text is read in brackets, with a null behind it: of a bare
    one Spark takes the first object and ignores what follows it, and a text may close a bracket by itself.
    """
    read = {
        n: F.expr(f"from_json(concat('[', {text}, ',null]'), 'ARRAY<{_MAP}>', {_STRICT})")
        for n, text in texts.items()
    }
    names = "lower(name)" if lower else "name"
    one = {
        n: F.expr(
            f"CASE WHEN size({n}) = 2 AND get({n}, 1) IS NULL "
            f"THEN transform_keys(get({n}, 0), (name, told) -> {names}) END"
        )
        for n in texts
    }
    return frame.withColumns(read).withColumns(one)


def _exact(text: str) -> Column:
    """The text with quotes around the numbers that a double may not keep, where there may be any."""
    quoted = F.regexp_replace(F.col(text), _TO_NUMBER, '$1"$2"')
    return F.when(F.col("may_be_inexact"), quoted).otherwise(F.col(text))


def _member(members: str, name: str) -> Column:
    return F.element_at(members, F.lit(name))


def parsed(raw: DataFrame, with_avro: bool) -> DataFrame:
    """The messages with their attributes, and the event where the message holds a whole one.

    `with_avro`: some of them are in Avro.
    `is_segment`: a part of a split event. `fault`, `fault_detail`: why a message cannot be read.
    """
    text = raw.withColumn("text", F.col("value").cast("string"))
    # A character of JSON in JSON may be told by its number.
    may_be_inexact = F.col("text").rlike(_MAY_BE_INEXACT) | F.col("text").contains("\\u00")
    marked = text.withColumn("may_be_inexact", may_be_inexact)
    envelopes = with_objects(marked.withColumn("exact_text", _exact("text")), {"envelope": "exact_text"})
    if with_avro:
        envelopes = ces_avro.with_envelope(envelopes)
    base64 = F.try_to_binary(_member("envelope", "data_base64"), F.lit("base64")).cast("string")
    attributes = envelopes.withColumns(
        {
            **{name: _member("envelope", name) for name in ATTRIBUTES},
            "data": F.coalesce(_member("envelope", "data"), base64),
            "segment_told": F.coalesce(
                _member("envelope", "segmentindex"), _member("envelope", "splitindex")
            ),
            "total_told": _member("envelope", "splittotalcnt"),
            "final_told": F.lower(_member("envelope", "finalsegment")),
        }
    )
    # `is_final` of later versions counts before `total` of the preview.
    is_final = F.when(F.col("final_told").isin("true", "1"), F.lit(True)).when(
        F.col("final_told").isin("false", "0"), F.lit(False)
    )
    placed = attributes.withColumns(
        {
            "segment": F.col("segment_told").try_cast("int"),
            "total": F.when(F.col("final_told").isNull(), F.col("total_told").try_cast("int")),
            "is_final": is_final,
        }
    ).withColumn("is_whole", _is_whole())
    judged = (
        _envelope_problems(with_avro)
        .told(placed)
        .withColumnsRenamed({"reason": "envelope_reason", "detail": "envelope_detail"})
    )
    is_segment = F.col("envelope_reason").isNull() & ~F.col("is_whole")
    kept = [*RAW, *FAULT, "data", *ATTRIBUTES, *SEGMENT, "may_be_inexact"]
    return with_event(judged.select(*kept, is_segment.alias("is_segment")))


def _is_whole() -> Column:
    """Is the event in this message alone?

    The preview says 0 of 0. Later versions count from 1, or from 0: segment 1 that is the last one is
    the whole event only where an event begins in it.
    """
    begins = F.col("data").rlike(_BEGINS)
    alone = F.col("is_final") & ((F.col("segment") == 0) | ((F.col("segment") == 1) & begins))
    return F.coalesce(
        F.when(F.col("is_final").isNotNull(), alone).otherwise(F.col("total") <= 1), F.lit(True)
    )


def _envelope_problems(with_avro: bool) -> base.Problems:
    text, value = F.col("text"), F.col("value")
    index, total, final = (F.col(f"{name}_told") for name in ("segment", "total", "final"))
    placed = F.coalesce(index, total, final).isNotNull()
    ends = F.when(final.isNotNull(), F.col("is_final").isNotNull()).otherwise(
        F.coalesce(F.col("total") >= 0, F.lit(False))
    )
    well_placed = F.coalesce(F.col("segment") >= 0, F.lit(False)) & ends
    shown = F.concat_ws(
        ", ",
        *(
            F.concat(F.lit(f"{name} "), F.coalesce(column, F.lit("missing")))
            for name, column in (("index", index), ("total", total), ("final", final))
        ),
    )
    found = base.Problems()
    found.add(value.isNull(), "tombstone", "a message without a value")
    is_json = F.ltrim(text, F.lit(_BLANK)).startswith("{")
    is_avro = ces_avro.is_avro() if with_avro else F.lit(False)
    broken = is_avro & F.col("envelope").isNull()
    found.add(broken, "malformed_avro", base.beginning())
    found.add(~is_json & ~is_avro, "not_json", F.concat(F.lit("0x"), F.hex(F.substring(value, 1, 200))))
    found.add(~F.is_valid_utf8(text) & ~is_avro, "not_utf8", "the message is not UTF-8")
    found.add(F.col("envelope").isNull(), "unparseable_json", text)
    base.add_lone_surrogate(found, text)
    found.add(F.col("data").isNull(), "no_data", "the message has no `data`")
    found.add(placed & ~well_placed, "malformed_segment", shown)
    found.add(
        ~F.col("is_whole") & F.col("logicalid").isNull(),
        "no_logicalid",
        "a part of a split event without `logicalid`",
    )
    return found


def with_event(messages: DataFrame, *carried: str) -> DataFrame:
    """Add what `data` says: the table, its columns and key, the transaction, and the two images as text."""
    whole = F.col("envelope_reason").isNull() & ~F.col("is_segment")
    # Bytes are written as base64.
    is_text = F.ltrim("data", F.lit(_BLANK)).startswith("{")
    data = F.when(is_text, F.col("data")).otherwise(
        F.coalesce(F.try_to_binary("data", F.lit("base64")).cast("string"), F.col("data"))
    )
    marked = messages.withColumns(
        {"event_text": F.when(whole, data), "may_be_inexact": F.col("may_be_inexact") | ~is_text}
    )
    events = with_objects(marked.withColumn("exact_text", _exact("event_text")), {"event": "exact_text"})
    staged = events.withColumns(
        {
            "source_text": _member("event", "eventsource"),
            "row_text": F.coalesce(_member("event", "eventrow"), _member("event", "eventdata")),
        }
    )
    staged = with_objects(staged, {"told": "source_text", "row": "row_text"}).withColumns(
        {"transaction_text": _member("told", "transaction"), "pkkey_text": _member("told", "pkkey")}
    )
    staged = with_objects(staged, {"transaction": "transaction_text"}).withColumns(
        {
            "pkkey": F.expr(f"from_json(pkkey_text, 'ARRAY<{_MAP}>')"),
            **{f"{side}_text": _member("row", side) for side in ("old", "current")},
        }
    )
    named = "transform_keys(column, (name, told) -> lower(name))"
    staged = staged.withColumns(
        {
            "pkkey": F.expr(f"filter(transform(pkkey, column -> {named}), c -> c['columnname'] IS NOT NULL)"),
            "whole": whole,
        }
    )
    return (
        _event_problems()
        .told(staged)
        .select(
            *RAW,
            *ATTRIBUTES,
            *SEGMENT,
            "is_segment",
            F.when(F.col("is_segment"), F.col("data")).alias("segment_text"),
            F.concat(_member("told", "schema"), F.lit("."), _member("told", "tbl")).alias("table_name"),
            _member("told", "cols").alias("cols"),
            *(_key_part(name).alias(f"key_{name}s") for name in ("name", "value")),
            *(_member("transaction", n).alias(n) for n in ("commitlsn", "sequencenumber", "committime")),
            *(_exact(f"{side}_text").alias(f"{side}_text") for side in ("old", "current")),
            F.coalesce("envelope_reason", "reason").alias("fault"),
            F.coalesce("envelope_detail", "detail").alias("fault_detail"),
            *carried,
        )
    )


def _key_part(name: str) -> Column:
    member = {"name": "columnname", "value": "value"}[name]
    told = F.expr(f"transform(pkkey, column -> column['{member}'])")
    return F.coalesce(told, F.array().cast("array<string>"))


def _event_problems() -> base.Problems:
    whole = F.col("whole")
    names = [F.coalesce(_member("told", name), F.lit("")) for name in ("schema", "tbl")]
    nameless = F.col("told").isNull() | (names[0] == "") | (names[1] == "")
    found = base.Problems()
    found.add(whole & F.col("event").isNull(), "unparseable_data", F.col("event_text"))
    base.add_lone_surrogate(found, F.col("event_text"))
    found.add(
        whole & nameless,
        "no_table",
        "`eventsource` does not name schema and table",
    )
    found.add(whole & F.col("row").isNull(), "no_event_row", "`data` has no `eventrow`")
    return found


def variant_mark() -> Column:
    """bigint, the same for all messages that tell their table's columns and key in the same words."""
    return F.xxhash64("cols", "key_names")


def variants(messages: DataFrame) -> DataFrame:
    """How tables are told: `table_name, cols, key_names`, their hash `mark`, the position of the `first`.

    `segments` counts parts of split events, which tell no table yet.
    """
    place = F.coalesce(
        F.regexp_extract("logicalid", r":([0-9A-Fa-f]{20}:[0-9]+)\z", 1), F.replace("commitlsn", F.lit(":"))
    )
    return (
        messages.where(F.col("fault").isNull())
        .groupBy("table_name", "cols", "key_names", variant_mark().alias("mark"))
        .agg(F.count_if("is_segment").alias("segments"), F.min(F.upper(place)).alias("first"))
    )
