"""Debezium's change events: JSON, bare or wrapped in `{schema, payload}`, or Avro (`debezium_avro`).

Key differences from the other dialects:

* One message tells both images; there is no mask, so what an update changed is the images' difference.
* (commit_lsn, change_lsn, event_serial_no) orders changes, but does not identify one: both halves of a
  key update can share all three.
* A snapshot row stands at the snapshot's position, one of an incremental snapshot at the stream's: it is
  never newer than a change behind it.
* Other connectors of the family use the same envelope: PostgreSQL's `lsn`, a 64-bit position, stands in
  for both LSNs, left-padded to 10 bytes.

Source: the connector's chapter on change event values, and the wire notes on versions 0.x to 3.x.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, lsn
from changeledger.change import literal
from changeledger.config import Feed, KafkaSource
from changeledger.contract import Contract
from changeledger.dialects import avro_frames, base, debezium_avro, debezium_shared
from changeledger.dialects.avro import Wanted, wanted_ddl
from changeledger.dialects.debezium_avro import CONTROL, ENVELOPE, FAULT, FAULT_DETAIL, READ
from changeledger.dialects.debezium_positions import positions, sort_key
from changeledger.dialects.debezium_schema import (
    DATABASE,
    database_of,
    discover,
    named_columns,
    union_topics,
)
from changeledger.dialects.debezium_unions import UNIONS, unwrapped
from changeledger.dialects.debezium_values import AS_NUMBERS, like_a_number, placeholder_texts, wire


def _fields(wanted: Wanted) -> str:
    return wanted_ddl(wanted).removeprefix("STRUCT<").removesuffix(">")


# `payload` for the wrapped form, the same members at the top for the bare one. Everything is text, so
# that no number goes through a double and NULL can be told from absent.
_MESSAGE = f"struct<payload:{wanted_ddl(ENVELOPE)},{_fields(ENVELOPE)}>"
_CONTROL = f"struct<payload:{wanted_ddl(CONTROL)},{_fields(CONTROL)}>"
_MEMBERS = ("before", "after", "source", "op", "ts_ms", "transaction")
_SIDES = ("before", "after")

# A placeholder stands where the source's log would have told the value.
PLACEHOLDER_MISPLACED = "placeholder_misplaced"

_OPERATIONS = {"c": change.INSERT, "u": change.UPDATE, "d": change.DELETE, "r": change.SNAPSHOT}


def survey(raw: DataFrame, feed: Feed, known: base.Known) -> base.Survey:
    """Topics tell tables, nearly always one each; their schema blocks, or Avro schemas, tell the columns."""
    framed = avro_frames.framed(raw)
    in_json = raw.where(~avro_frames.is_framed()) if framed else raw
    ends = base.ends(in_json)
    # What the ends tell comes last: it holds.
    samples = [*debezium_shared.samples_between(in_json, ends, feed), *ends.samples]
    topics = discover(samples, feed)
    shared = [topic for topic, tables in topics.items() if len(tables) > 1]
    if shared:
        routed = known.keep(debezium_shared.routed(in_json, shared))
        samples += debezium_shared.samples_of_each_table(routed)
        topics = discover(samples, feed)
    marks = {topic: {UNIONS: F.lit(True)} for topic in union_topics(samples)}
    database = database_of(samples, feed)
    told = []
    for topic, tables in topics.items():
        for table, found in tables.items():
            is_alone = topic not in shared
            records = (
                in_json.where(F.col("topic") == topic)
                if is_alone
                else debezium_shared.of_table(routed, topic, table)
            )
            marked = records.withColumns(marks.get(topic, {}) | {DATABASE: F.lit(database).cast("string")})
            told.append(base.Told(table, found.read_by(known.contracts.get(table)), marked))
    if framed:
        survey = debezium_avro.survey(raw, framed, told, set(topics), feed, known)
    else:
        survey = base.Survey(told, raw.where(~F.col("topic").isin(list(topics))))
    if not shared:
        return survey
    left = debezium_shared.of_no_table(routed, {topic: topics[topic] for topic in shared})
    return replace(survey, others=survey.others.unionByName(left, allowMissingColumns=True))


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """One row of `base.DECODED` per raw message of the topics that tell `contract.table`."""
    source = feed.source
    assert isinstance(source, KafkaSource), "config binds a dialect to its source"
    is_avro = READ in raw.columns
    parsed = _read(raw) if is_avro else _parsed(raw)
    if UNIONS in raw.columns:
        parsed = unwrapped(parsed, contract)
    # Avro's own bytes and texts are never numbers.
    is_plain = not is_avro and UNIONS not in raw.columns
    staged = _images(_placed(parsed, contract), contract, source, is_plain)
    form = (_problems_of_avro() if is_avro else _problems_of_json()).found_as("malformed")
    outcome = base.whole_message("key_bytes", F.col("control"))
    return _problems(form, contract).told(staged).select(*_change_columns(contract), *outcome)


def _parsed(raw: DataFrame) -> DataFrame:
    """The members of each message, and `malformed`, the problem of its form."""
    parsed = base.read_json(_text(), _MESSAGE)
    message = _message_alone()
    wrapped = message["payload"]
    members = {n: F.when(wrapped.isNotNull(), wrapped[n]).otherwise(message[n]) for n in _MEMBERS}
    told = _told_beside(_problems_of_json())
    # A message without `op` is looked at again.
    no_operation = members["op"].isNull()
    wraps_nothing = F.when(no_operation & message.isNotNull(), _wraps_nothing(_text()))
    told["is_tombstone"] |= F.coalesce(wraps_nothing, F.lit(False))
    told["control"] = F.when(no_operation, _control(_text()))
    return raw.withColumn("messages", parsed).withColumns({**members, **told}).drop("messages")


def _read(raw: DataFrame) -> DataFrame:
    """As `_parsed`, of records in Avro."""
    read = raw.withColumns({name: F.col(READ)[name] for name in _MEMBERS})
    return read.withColumns(_told_beside(_problems_of_avro()))


def _told_beside(form: base.Problems) -> dict[str, Column]:
    return {
        "malformed": form.first(),
        "is_tombstone": F.col("value").isNull(),
        "key_bytes": F.col("key"),
        "control": F.lit(None).cast("string"),
    }


def _wraps_nothing(text: Column) -> Column:
    """Is the object what Connect's converter makes of a tombstone where it sends schemas?"""
    members = F.array_sort(F.json_object_keys(text))
    is_envelope = members == F.array(F.lit("payload"), F.lit("schema"))
    return is_envelope & F.get_json_object(text, "$.payload").isNull()


def _control(text: Column) -> Column:
    """Which control message a text is, by its form; NULL where it is none."""
    told = base.read_json(text, _CONTROL)
    return F.when(F.size(told) == 1, _control_name(partial(_said, F.get(told, F.lit(0))), text))


def _said(one: Column, name: str) -> Column:
    return F.coalesce(one["payload"][name], one[name])


def _control_name(says: Callable[[str], Column], text: Column) -> Column:
    """`says` gives the members of the message."""
    # A heartbeat has no other member.
    members = F.json_object_keys(F.coalesce(F.get_json_object(text, "$.payload"), text))
    return (
        F.when(members == F.array(F.lit("ts_ms")), F.lit("heartbeat"))
        .when(says("status").isin("BEGIN", "END") & says("id").isNotNull(), F.lit("transaction"))
        .when(says("ddl").isNotNull() | says("databaseName").isNotNull(), F.lit("schema_change"))
    )


def _text() -> Column:
    return F.col("value").cast("string")


def _message_alone() -> Column:
    """The message, where the text holds one and no more."""
    return F.when(F.size("messages") == 1, F.get("messages", F.lit(0)))


def _problems_of_json() -> base.Problems:
    text, form, corrupt = _text(), base.json_form(_text()), _message_alone().isNull()
    found = base.Problems()
    found.add(~F.is_valid_utf8(text), "not_utf8", "the message is not UTF-8")
    found.add(~form.begins, "not_an_object", text)
    found.add((corrupt & form.is_broken) | ~form.ends, "unparseable_json", text)
    found.add(corrupt, "malformed_envelope", text)
    base.add_lone_surrogate(found, text)
    return found


def _problems_of_avro() -> base.Problems:
    found = base.Problems()
    found.add(F.col(READ).isNull(), "malformed_avro", base.beginning())
    for side in _SIDES:
        texts = F.concat_ws("", F.map_values(side))
        found.add(~F.is_valid_utf8(texts), "not_utf8", F.lit(f"a text in `{side}` is not UTF-8"))
    return found


def _placed(parsed: DataFrame, contract: Contract) -> DataFrame:
    """Where each change stands, and the texts of its images."""
    texts = {f"{side}_texts": images.texts(F.col(side), contract) for side in _SIDES}
    return positions(parsed).withColumns(texts)


def _images(staged: DataFrame, contract: Contract, source: KafkaSource, is_plain: bool) -> DataFrame:
    """`is_plain`: are the cells JSON's own texts and numbers?"""
    held, encoded = placeholder_texts(source)
    before_gaps, after_gaps = (images.gaps(side, side, contract, held, encoded) for side in _SIDES)
    compared = staged.withColumns(
        {
            "before_gaps": F.coalesce(_key_only_delete(contract), before_gaps),
            "after_gaps": after_gaps,
            "unknown": F.coalesce(*(images.unknown_members(F.col(side), contract) for side in _SIDES)),
            **({AS_NUMBERS: _has_numbers(contract)} if is_plain else {}),
        }
    )
    read = images.read_cells(compared, _SIDES, contract, wire(source, is_plain), held, encoded)
    before, after = (images.cells(side, contract) for side in _SIDES)
    own = [f"CASE WHEN op = 'd' THEN {b} ELSE {a} END" for b, a in zip(before, after, strict=True)]
    return read.withColumns(
        {
            "key": images.key_of(own, contract),
            "old_key": images.key_of(before, contract),
            "misfits": F.coalesce(*(images.misfits(side, contract, held, encoded) for side in _SIDES)),
        }
    )


def _has_numbers(contract: Contract) -> Column:
    """Are decimals JSON numbers here? The text of `1200` could be base64 as well: the message decides.

    It is searched only where the cells of some decimal begin and end as a number does.
    """
    decimals = [(at, c.name) for at, c in enumerate(contract.columns) if c.spark_type.startswith("decimal")]
    if not decimals:
        return F.lit(False)
    alike = " OR ".join(like_a_number(f"get({side}_texts, {at})") for side in _SIDES for at, _ in decimals)
    names = "|".join(re.escape(name) for _, name in decimals)
    return F.when(F.expr(alike), _text().rlike(rf'"(?:{names})"\s*:\s*-?[0-9]')).otherwise(F.lit(False))


def _misplaced(contract: Contract) -> Column:
    """Has a column a placeholder whose values are always in SQL Server's log? Some builds mix columns up."""
    small = [literal(c.name) for c in contract.columns if not c.sql_type.is_large]
    if not small:
        return F.lit(False)
    held = f"(name, state) -> state = {literal(change.UNAVAILABLE)} AND name IN ({', '.join(small)})"
    anywhere = [f"coalesce(size(map_filter({side}_gaps, {held})) > 0, false)" for side in ("before", "after")]
    of_sql_server = F.coalesce(F.col("source")["connector"], F.lit("sqlserver")) == "sqlserver"
    return of_sql_server & F.expr(" OR ".join(anywhere))


def _key_only_delete(contract: Contract) -> Column:
    """PostgreSQL's default replica identity sends the key alone on a delete, NULLs for the rest."""
    others = [c for c in contract.columns if not c.key_position]
    if not others:
        return F.lit(None).cast("map<string,string>")
    keys = len(contract.columns) - len(others)
    # As many NULLs as there are columns outside the key, which is never NULL.
    empty = F.size(F.array_compact(F.col("before_texts"))) == keys
    gaps = F.expr(f"map({', '.join(literal(x) for c in others for x in (c.name, change.UNAVAILABLE))})")
    return F.when((F.col("op") == "d") & (F.col("source")["connector"] == "postgresql") & empty, gaps)


def _problems(found: base.Problems, contract: Contract) -> base.Problems:
    """`found`: what is wrong with the form."""
    source, op = F.col("source"), F.col("op")
    streamed = ~F.col("is_snapshot")
    schema_name, table_name = contract.table.split(".", 1)
    found.add(source.isNull(), "no_source", "the message has no `source`")
    found.add(op.isNull(), "no_operation", "the message has no `op`")
    found.add(~op.isin(*_OPERATIONS), "unknown_operation", F.concat(F.lit("op is "), op))
    told = F.lower(F.concat(F.coalesce(source["schema"], F.lit(schema_name)), F.lit("."), source["table"]))
    # As the feed writes the name, nearly always: only what differs is compared without case.
    as_written = (source["schema"] == schema_name) & (source["table"] == table_name)
    found.add(
        F.when(as_written, F.lit(False)).otherwise(
            source["table"].isNotNull() & (told != f"{schema_name}.{table_name}".lower())
        ),
        "table_mismatch",
        F.concat(told, F.lit(f" in the topic of {contract.table}")),
    )
    # Tables of two databases can share their names, and even positions.
    database = F.col(DATABASE)
    found.add(
        F.when(source["db"] == database, F.lit(False)).otherwise(F.lower(source["db"]) != F.lower(database)),
        "database_mismatch",
        F.concat(F.lit("db is "), source["db"], F.lit(" among changes of "), database),
    )
    found.add((op != "d") & F.col("after_texts").isNull(), "no_after_image", F.concat(F.lit("op is "), op))
    found.add((op == "d") & F.col("before_texts").isNull(), "no_before_image", "a delete without `before`")
    for name in ("commit_lsn", "change_lsn"):
        broken = F.col(name).isNull() & ~lsn.is_absent(source[name])
        found.add(broken & streamed, "malformed_lsn", F.concat(F.lit(f"{name} is "), source[name]))
    found.add(streamed & F.col("commit_lsn").isNull(), "no_position", "neither commit_lsn nor lsn is told")
    found.add(
        source["event_serial_no"].isNotNull() & F.col("ordinal").isNull(),
        "malformed_serial",
        F.concat(F.lit("event_serial_no is "), source["event_serial_no"]),
    )
    found.add(
        F.col("committed_at").isNull(),
        "malformed_time",
        F.concat(F.lit("source.ts_ms is "), F.coalesce(source["ts_ms"], F.lit("missing"))),
    )
    base.add_image_problems(found, contract)
    return found


def _change_columns(contract: Contract) -> list[Column]:
    op, before, after = F.col("op"), images.image("before", contract), images.image("after", contract)
    has_before = F.col("before_texts").isNotNull()
    is_update = op == "u"
    # It carries the position of the stream; a snapshot of a whole table has no place in a transaction.
    is_incremental = F.lower(F.col("source")["snapshot"]) == "incremental"
    has_both = is_update & has_before
    moved = has_both & ~F.col("old_key").eqNullSafe(F.col("key"))
    no_gaps = F.lit(None).cast("map<string,string>")
    different = images.differing(
        images.cells("before", contract), images.cells("after", contract), contract.names
    )
    changed = images.without_gaps(different, F.col("before_gaps"), F.col("after_gaps"))
    return [
        base.by_case(op, _OPERATIONS).alias("operation"),
        F.col("key"),
        F.when(moved, F.col("old_key")).alias("previous_key"),
        F.when(op.isin("u", "d"), before).alias("before"),
        F.when(op != "d", after).alias("after"),
        F.when(op.isin("u", "d"), F.col("before_gaps")).otherwise(no_gaps).alias("before_gaps"),
        F.when(op != "d", F.col("after_gaps")).otherwise(no_gaps).alias("after_gaps"),
        F.when(has_both, changed).alias("changed"),
        F.lit(None).cast("string").alias("mask"),
        F.col("commit_lsn"),
        F.when(~F.col("is_snapshot") | is_incremental, F.col("change_lsn")).alias("change_lsn"),
        F.col("ordinal"),
        sort_key().alias("sort_key"),
        F.col("committed_at"),
        F.coalesce(
            F.when(F.col("source")["connector"] != "sqlserver", F.col("transaction")["id"]),
            F.when(~F.col("is_snapshot"), lsn.to_text(F.col("commit_lsn"))),
        ).alias("transaction_id"),
        base.flags(
            {
                change.POSITION_UNKNOWN: F.col("commit_lsn").isNull(),
                change.BEFORE_UNKNOWN: is_update & ~has_before,
                change.KEY_CHANGED: moved,
                change.CLOCK_SUSPECT: F.col("clock_suspect"),
                PLACEHOLDER_MISPLACED: _misplaced(contract),
            }
        ).alias("flags"),
        base.message_record().alias("record"),
    ]


def decode_other(raw: DataFrame, feed: Feed) -> DataFrame:
    """Messages of topics without a table of the feed: heartbeats, transaction and schema topics.

    A change of a table that the feed does not list is control; anything else is quarantined.
    """
    text = _text()
    told = base.read_json(text, _CONTROL)
    parsed = raw.withColumn("one", F.when(F.size(told) == 1, F.get(told, F.lit(0))))
    is_avro = READ in raw.columns

    def says(name: str) -> Column:
        said = _said(F.col("one"), name)
        return F.coalesce(F.col(READ)[name], said) if is_avro else said

    source = says("source")
    table = F.lower(F.concat(source["schema"], F.lit("."), source["table"]))
    of_the_feed = table.isin([t.table.lower() for t in feed.tables]) if feed.tables else F.lit(True)
    event = says("op").isNotNull() & source.isNotNull()
    of_heartbeats = F.col("topic").startswith("__debezium-heartbeat") & says("ts_ms").isNotNull()
    control = F.when(of_heartbeats, F.lit("heartbeat")).otherwise(_control_name(says, text))
    wraps_nothing = F.when(F.col("one").isNotNull(), _wraps_nothing(text))
    known = [
        (F.col("value").isNull() | wraps_nothing, change.TOMBSTONE, F.lit("tombstone")),
        (control.isNotNull(), change.CONTROL, control),
        # Neither the first nor the last messages of its topic told of a table.
        (event & (table.isNull() | of_the_feed), change.QUARANTINED, F.lit("topic_tells_no_table")),
        (event, change.CONTROL, F.lit("table_not_in_feed")),
    ]
    disposition, reason = F.lit(change.QUARANTINED), F.lit("not_an_event")
    for condition, outcome, name in reversed(known):
        holds = F.coalesce(condition, F.lit(False))
        disposition = F.when(holds, F.lit(outcome)).otherwise(disposition)
        reason = F.when(holds, name).otherwise(reason)
    shown = F.when(disposition == change.QUARANTINED, F.substring(text, 1, 500))
    if is_avro:
        fault = F.col(FAULT)
        disposition = base.quarantined_if(fault, disposition)
        reason = F.coalesce(fault, reason)
        shown = F.when(
            disposition == change.QUARANTINED, F.coalesce(FAULT_DETAIL, base.beginning())
        ).otherwise(shown)
    return base.without_change(parsed, disposition, reason, shown)


DEBEZIUM = base.MessageDialect("debezium", survey, decode, decode_other, named_columns=named_columns)
